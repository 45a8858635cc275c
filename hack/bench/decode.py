"""How fast a list of bindings is decoded, against what one would otherwise use. This is what msgspec is here for.

A call decodes one page of 500 bindings as Karmada stores them, managed fields and all; a thorough round has ten of
them, 5,000 bindings.

- msgspec building the fields that are declared, against pydantic models of the same fields, and against `json.loads`,
  which builds everything and checks nothing: a dependency must earn its place by a factor.
- The whole way from bytes to `Binding`, amounts and all, against pydantic and `json.loads` alone, which by then have
  charged nothing; without a bar.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

import msgspec
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from bench import stored
from bench.measure import Effort, Findings, compare
from federation_quota.binding import Binding
from federation_quota.kube import codec, wire
from federation_quota.stamp import HELD_LABEL, PREEMPTIBLE_LABEL, STAMP_ANNOTATION

_PAGE_SIZE = 500
_PAGES = 10


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class _Labels(BaseModel):
    held: str = Field("", alias=HELD_LABEL)
    preemptible: str = Field("", alias=PREEMPTIBLE_LABEL)


class _Annotations(BaseModel):
    stamp: str | None = Field(None, alias=STAMP_ANNOTATION)


class _Metadata(_Model):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: _Labels | None = None
    annotations: _Annotations | None = None


class _Reference(_Model):
    api_version: str
    kind: str
    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _Requirements(_Model):
    resource_request: dict[str, str | int] | None = None


class _Component(_Model):
    name: str
    replicas: int
    replica_requirements: _Requirements | None = None


class _Target(_Model):
    name: str
    replicas: int | None = None


class _Task(_Model):
    from_cluster: str
    replicas: int | None = None


class _Snapshot(_Model):
    clusters: list[_Target] | None = None


class _Suspension(_Model):
    scheduling: bool | None = None


class _Scheduling(_Model):
    replica_scheduling_type: str = ""


class _Constraint(_Model):
    min_groups: int | None = None


class _Placement(_Model):
    replica_scheduling: _Scheduling | None = None
    spread_constraints: list[_Constraint] | None = None


class _Spec(_Model):
    resource: _Reference
    replicas: int | None = None
    replica_requirements: _Requirements | None = None
    components: list[_Component] | None = None
    clusters: list[_Target] | None = None
    placement: _Placement | None = None
    graceful_eviction_tasks: list[_Task] | None = None
    required_by: list[_Snapshot] | None = None
    suspension: _Suspension | None = None
    preserve_resources_on_deletion: bool | None = None


class _Condition(_Model):
    type: str = ""
    status: str = ""
    reason: str | None = None


class _Aggregated(_Model):
    cluster_name: str


class _Status(_Model):
    conditions: list[_Condition] | None = None
    aggregated_status: list[_Aggregated] | None = None


class _Binding(_Model):
    metadata: _Metadata
    spec: _Spec
    status: _Status | None = None


class _ListMetadata(_Model):
    resource_version: str | None = None


class _List(_Model):
    metadata: _ListMetadata
    items: list[_Binding]


class _Page(msgspec.Struct):
    items: list[wire.BindingShape]


class _LoosePage(msgspec.Struct):
    items: list[msgspec.Raw]


_LOOSE_PAGE = msgspec.json.Decoder(_LoosePage)


def _bindings(body: bytes) -> list[Binding]:
    """As a reflector takes a page: item by item, so that a bad one costs no other."""
    return [codec.decode_stored_binding(item) for item in _LOOSE_PAGE.decode(body).items]


def run(effort: Effort) -> Findings:
    """Measure declared fields and the whole way, each against pydantic and `json.loads`."""
    pages = [_page(number) for number in range(_PAGES)]
    structs = msgspec.json.Decoder(_Page).decode
    models, everything = _List.model_validate_json, json.loads

    def some(_round_number: int, count: int) -> Sequence[bytes]:
        # A page takes as long as a thousand of the calls that efforts are made for.
        return pages[: max(1, count * _PAGES // 6000)]

    fewer = replace(effort, rounds=min(effort.rounds, 11))
    named, parsed = "pydantic, same fields", "json.loads"
    return Findings(
        [
            compare("page to structs", structs, named, models, some, bar=0.5, effort=fewer),
            compare("page to structs", structs, parsed, everything, some, bar=0.5, effort=fewer),
            compare("page to bindings", _bindings, named, models, some, bar=None, effort=fewer),
            compare("page to bindings", _bindings, parsed, everything, some, bar=None, effort=fewer),
        ]
    )


def _page(number: int) -> bytes:
    items = [stored.binding(number * _PAGE_SIZE + offset) for offset in range(_PAGE_SIZE)]
    return json.dumps({"apiVersion": "v1", "metadata": {"resourceVersion": "900000"}, "items": items}).encode()
