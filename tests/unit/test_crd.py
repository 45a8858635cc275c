import functools
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from federation_quota import api
from federation_quota.api import meta
from federation_quota.api.karmadaquota import KarmadaQuota
from federation_quota.crd import AGE, CustomResource, SchemaError, structural
from federation_quota.quantity import Format, Quantity, QuantityError, parse

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "hack" / "crds.py"

Node = tuple[str, dict[str, Any]]


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[Node]:
    """Every schema within a schema, with its path: a map's values and a list's items as `[]`."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from nodes(schema[word], f"{path}[]")


def schema_of(resource: CustomResource) -> dict[str, Any]:
    (version,) = resource.definition()["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


NODES = [node for resource in api.RESOURCES for node in nodes(schema_of(resource), resource.kind)]
INT_OR_STRING = "x-kubernetes-int-or-string"


def where(condition: Any) -> list[str]:  # noqa: ANN401 # a predicate over nodes
    return [path for path, node in NODES if condition(path, node)]


# What must hold of every kind


def test_everything_has_a_type() -> None:
    assert where(lambda _, node: ("type" in node) == (INT_OR_STRING in node)) == []


def test_nothing_is_left_that_is_not_structural() -> None:
    foreign = {"$ref", "$defs", "title", "anyOf", "allOf", "oneOf", "not", "const", "exclusiveMaximum"}
    assert where(lambda _, node: foreign & node.keys()) == []
    assert where(lambda _, node: "properties" in node and "additionalProperties" in node) == []


def test_everything_has_a_bound() -> None:
    def is_unbounded(path: str, node: dict[str, Any]) -> bool:
        if re.fullmatch(r"\w+\.(apiVersion|kind)", path):
            return False
        if node.get("type") == "string":
            return "maxLength" not in node and "enum" not in node and node.get("format") != "date-time"
        if node.get("type") == "array":
            return "maxItems" not in node
        return ("additionalProperties" in node and "maxProperties" not in node) or (
            INT_OR_STRING in node and "maxLength" not in node
        )

    assert where(is_unbounded) == []


def test_every_field_is_explained() -> None:
    def is_unexplained(path: str, node: dict[str, Any]) -> bool:
        is_common = re.fullmatch(r"\w+(\.(apiVersion|kind|metadata))?", path)
        return not is_common and not path.endswith("[]") and not node.get("description", "").endswith(".")

    assert where(is_unexplained) == []


def test_what_the_system_writes_is_written_whole() -> None:
    """Else managedFields would name every reservation and every resource."""

    def is_merged(path: str, node: dict[str, Any]) -> bool:
        if not re.match(r"\w+\.status\.", path) or path.endswith(".conditions"):
            return False
        kind = "x-kubernetes-list-type" if node.get("type") == "array" else "x-kubernetes-map-type"
        return ("items" in node or "additionalProperties" in node) and node.get(kind) != "atomic"

    assert where(is_merged) == []


def test_the_api_server_fills_in_what_a_client_left_out_and_nothing_the_system_writes() -> None:
    defaults = {path: node["default"] for path, node in NODES if "default" in node}
    assert defaults == {
        "KarmadaQuota.spec": {},
        "KarmadaQuota.spec.onExceeded": "Deny",
        "KarmadaQuota.spec.memberUsage": {},
        "KarmadaQuota.spec.memberUsage.policy": "Report",
        "KarmadaQuota.spec.memberUsage.graceSeconds": 300,
        "QuotaTree.spec": {},
        "QuotaTree.spec.mode": "Runtime",
        "QuotaTree.spec.scaleMin": True,
        "QuotaTree.spec.keepUsed": False,
        "QuotaTree.spec.reclaim": {},
        "QuotaTree.spec.reclaim.enabled": True,
        "QuotaTree.spec.reclaim.delaySeconds": 120,
        **{
            f"{kind}.spec{field}": default
            for kind in ("ElasticQuota", "CompositeElasticQuota")
            for field, default in (("", {}), (".tree", "default"), (".allowLentResource", True), (".scaleMin", True))
        },
    }


# KarmadaQuota


def test_the_names_of_a_karmada_quota() -> None:
    (resource,) = [resource for resource in api.RESOURCES if resource.kind == "KarmadaQuota"]
    definition = resource.definition()
    assert definition["metadata"]["name"] == resource.name == "karmadaquotas.quota.karmada.io"
    assert definition["spec"]["scope"] == "Namespaced"
    assert definition["spec"]["names"] == {
        "kind": "KarmadaQuota",
        "listKind": "KarmadaQuotaList",
        "plural": "karmadaquotas",
        "singular": "karmadaquota",
        "shortNames": ["kq"],
        "categories": ["karmada-io"],
    }
    (version,) = definition["spec"]["versions"]
    assert version["subresources"] == {"status": {}}


def test_the_models_read_and_write_what_is_on_the_wire() -> None:
    wire = {
        "spec": {"hard": {"cpu": 10, "memory": "20Gi"}, "onExceeded": "Hold", "memberUsage": {"graceSeconds": 5}},
        "status": {
            "reservations": [
                {"id": "a", "binding": "b", "charge": {"cpu": "1"}, "class": "", "time": "2026-01-02T03:04:05.678901Z"}
            ]
        },
    }
    model = KarmadaQuota.model_validate(wire)
    assert model.spec.member_usage.grace_seconds == 5
    assert model.spec.member_usage.policy == "Report"
    assert model.status is not None
    assert model.status.reservations[0].priority_class == ""
    assert model.model_dump(mode="json", by_alias=True, exclude_unset=True) == wire


AMOUNT = next(node for path, node in NODES if path == "KarmadaQuota.status.used[]")


@given(
    st.integers(-(10**1008), 10**1008) | st.integers(-(10**21), 10**21) | st.integers(0, 1000).map(lambda n: 10**n),
    st.sampled_from(Format),
)
def test_whatever_is_printed_may_be_stored(nano: int, form: Format) -> None:
    """A status that the API server refuses would stop its account."""
    text = Quantity(nano, form).to_json()
    assert re.search(AMOUNT["pattern"], text)
    assert len(text) <= AMOUNT["maxLength"]


@given(st.from_regex(re.compile(AMOUNT["pattern"].replace("$", r"\Z"), re.ASCII)))
def test_whatever_may_be_stored_is_read(text: str) -> None:
    try:
        parse(text)
    except QuantityError as error:
        assert "too large" in str(error) or "more than 1024 characters" in str(error)  # noqa: PT017 # else it is fine


# From models to schemas


class Leaf(BaseModel):
    """A leaf."""

    size: Annotated[int, Field(ge=0)]


class Whole(BaseModel):
    """One thought
    over two lines.

    Another.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    title: str
    kind: Literal["Only"]
    leaf: Leaf
    """The leaf
    of this one."""
    leaves: list[Leaf] = Field(default_factory=list)
    by_name: dict[str, Leaf] = Field(default_factory=dict)
    maybe: Annotated[str, Field(max_length=5)] | None = None
    """May be absent."""
    maybe_leaf: Leaf | None = None


def test_a_model_becomes_a_structural_schema() -> None:
    size = {"properties": {"size": {"minimum": 0, "type": "integer", "format": "int64"}}, "required": ["size"]}
    leaf = {"type": "object", **size}
    assert structural(Whole) == {
        "type": "object",
        "description": "One thought over two lines.\n\nAnother.",
        "required": ["title", "kind", "leaf"],
        "properties": {
            "title": {"type": "string"},
            "kind": {"type": "string", "enum": ["Only"]},
            "leaf": {**leaf, "description": "The leaf of this one."},
            "leaves": {"type": "array", "items": {**leaf, "description": "A leaf."}},
            "by_name": {"type": "object", "additionalProperties": {**leaf, "description": "A leaf."}},
            "maybe": {"type": "string", "maxLength": 5, "description": "May be absent."},
            "maybe_leaf": {**leaf, "description": "A leaf."},
        },
    }


class Endless(BaseModel):
    inner: "list[Endless]" = Field(default_factory=list)


class Union(BaseModel):
    value: int | str


class NullByDefaultOfAnother(BaseModel):
    value: str | None = "x"


class Anything(BaseModel):
    value: Any


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    value: str


class Below(BaseModel):
    value: Annotated[int, Field(lt=5)]


class Ruled(BaseModel):
    model_config = ConfigDict(json_schema_extra=meta.rules(("self.size > 0", "must be")))
    size: int


class RuledTwice(BaseModel):
    value: Annotated[Ruled, Field(json_schema_extra=meta.rules(("self.size > 1", "must be")))]


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (Endless, r"Endless\.inner\[\]: Endless contains itself"),
        (Union, r"Union\.value: anyOf has no place"),
        (NullByDefaultOfAnother, r"NullByDefaultOfAnother\.value: a union has no structural form"),
        (Anything, r"Anything\.value: has no type"),
        (Closed, r"Closed: additionalProperties has no place"),
        (Below, r"Below\.value: exclusiveMaximum has no place"),
        (RuledTwice, r"RuledTwice\.value: x-kubernetes-validations stands on the field and on its model"),
    ],
)
def test_what_has_no_structural_form_is_an_error_that_says_where(model: type[BaseModel], complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        structural(model)


def test_a_definition_has_no_empty_names() -> None:
    definition = CustomResource(Leaf, "example.com", "v1", "leaves", "Cluster").definition()
    assert definition["spec"]["names"] == {
        "kind": "Leaf",
        "listKind": "LeafList",
        "plural": "leaves",
        "singular": "leaf",
    }
    (version,) = definition["spec"]["versions"]
    assert version["additionalPrinterColumns"] == [AGE.to_json()]


# The files


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hack_crds", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_files_are_what_the_models_say() -> None:
    run = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_drift_is_seen_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load_script()
    folder = tmp_path / "crds"
    folder.mkdir()
    monkeypatch.setattr(script, "FOLDER", folder)
    monkeypatch.setattr(script, "render", functools.cache(script.render))
    name = "quota.karmada.io_karmadaquotas.yaml"
    names = [f"quota.karmada.io_{resource.plural}.yaml" for resource in api.RESOURCES]
    complaint = "{} is not what federation_quota/api says: run .venv/bin/python hack/crds.py\n"

    assert script.main(["--check"]) == 1
    assert capsys.readouterr().err == "".join(complaint.format(f"crds/{one}") for one in sorted(names))
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    assert yaml.safe_load((folder / name).read_text()) == api.RESOURCES[0].definition()

    (folder / name).write_text((folder / name).read_text().replace("maxItems: 64", "maxItems: 65"))
    (folder / "gone.yaml").write_text(script.HEADER + "kind: Gone\n")
    (folder / "other.yaml").write_text("kind: Other\n")
    capsys.readouterr()
    assert script.main(["--check"]) == 1
    assert capsys.readouterr().err == complaint.format("crds/gone.yaml") + complaint.format(f"crds/{name}")
    assert script.main([]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["other.yaml", *sorted(names)]
    assert script.main(["--check"]) == 0
    assert script.main(["--chekc"]) == 2
