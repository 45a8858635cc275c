"""Whatever is stored: it is read, or is an error of its own, and what stands beside it is served as before."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota import stamp, waiting
from federation_quota.accounting.observation import Observation
from federation_quota.karmadaquota import QuotaError
from federation_quota.kube import clusters, codec, lease, legacies
from federation_quota.kube.client import Client
from federation_quota.kube.mirrors import BindingMirror, PriorityMirror, QuotaMirror
from federation_quota.kube.quotas import RESOURCE_BINDINGS, decode_quota
from federation_quota.kube.reflector import Reflector, Undecodable
from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Books
from federation_quota.ledger.legacy import Legacy
from federation_quota.ledger.view import View
from tests.fuzz.budget import examples
from tests.fuzz.hostile import HOSTILE, encode, put, twisted
from tests.fuzz.world import stored_quota
from tests.unit.documents import BINDING, STAMP
from tests.unit.test_works import deployment, work

RESERVATION = {
    "id": "a1",
    "binding": "web-deployment",
    "uid": "u",
    "charge": {"cpu": "1", "pods": "3"},
    "class": "high",
    "time": "2026-08-01T10:00:00Z",
}
WAITING = {
    "binding": "web-deployment",
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "name": "web",
    "class": "",
    "priority": 0,
    "charge": {"cpu": "1"},
    "since": "2026-08-01T10:00:00Z",
    "message": "no",
}
QUOTA = stored_quota("q", {"cpu": "10", "memory": "1Gi"})
QUOTA["spec"] |= {
    "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]},
    "memberUsage": {"policy": "Charge", "graceSeconds": 300},
}
QUOTA["status"] |= {
    "reservations": [RESERVATION, {**RESERVATION, "id": "a2", "uid": None, "base": "12"}],
    "observedBindingVersion": "4711",
    "unbound": {"cpu": "1"},
    "waiting": [WAITING],
    "conditions": [{"type": "MembersReady", "status": "True", "reason": "X", "message": "y"}],
    "clusters": [{"name": "m1", "bound": {"cpu": "1"}}],
}
POD = {
    "metadata": {
        "name": "web-1",
        "namespace": "team-a",
        "deletionTimestamp": "2026-08-01T10:00:00Z",
        "deletionGracePeriodSeconds": 30,
        "labels": {"pod-template-hash": "abc"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-abc", "controller": True}],
    },
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}],
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        "overhead": {"cpu": "10m"},
        "priorityClassName": "high",
        "resources": {"requests": {"memory": "1Gi"}},
    },
    "status": {
        "phase": "Running",
        "containerStatuses": [
            {"name": "c", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}
        ],
        "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
    },
}
CLUSTER = {
    "metadata": {"name": "m1", "uid": "u", "resourceVersion": "5"},
    "spec": {
        "syncMode": "Push",
        "apiEndpoint": "https://m1:6443/",
        "secretRef": {"namespace": "karmada-cluster", "name": "m1"},
        "insecureSkipTLSVerification": False,
        "proxyURL": "http://proxy:3128",
        "proxyHeader": {"a": "b"},
    },
}
LEASE = {
    "metadata": {
        "name": "webhook-1",
        "namespace": "x",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"a": "b"},
        "annotations": {"quota.karmada.io/left": "x", "quota.karmada.io/legacy": "{}"},
    },
    "spec": {"holderIdentity": "h", "leaseDurationSeconds": 15, "renewTime": "2026-08-01T10:00:00.0Z"},
}
LEGACY = {"observed": "12", "admissions": {"team-a": [RESERVATION]}}


def read_or_refused(read: Callable[[bytes], Any], body: bytes, *errors: type[Exception]) -> Any:  # noqa: ANN401
    try:
        return read(body)
    except errors:
        return None


@examples(40)
@given(twisted([QUOTA, QUOTA["spec"], {**QUOTA, "status": None}]))
def test_quotas(document: Any) -> None:  # noqa: ANN401
    account = read_or_refused(decode_quota, encode(document), QuotaError)
    if account is None:
        return
    assert isinstance(account, Account)
    # What was read can be dealt with.
    assert int(account.version) >= 0
    assert account.lens.shape
    Books(account, View())
    waiting.merge((), waiting.read(account.beside.status))  # type: ignore[attr-defined]


@examples(40)
@given(twisted([BINDING]))
def test_bindings(document: Any) -> None:  # noqa: ANN401
    found = read_or_refused(codec.decode_stored_binding, encode(document), codec.CodecError)
    if found is not None:
        assert found.key.name
        mirror = BindingMirror(Observation())
        mirror.replace([found], max(found.version, 1))
        mirror.upsert(found)
        mirror.delete(found)


@examples(20)
@given(twisted([POD]))
def test_pods(document: Any) -> None:  # noqa: ANN401
    read_or_refused(codec.decode_pod, encode(document), codec.CodecError)


@examples(15)
@given(twisted([work(deployment(), deployment())]))
def test_works(document: Any) -> None:  # noqa: ANN401
    read_or_refused(codec.decode_work, encode(document), codec.CodecError)


@examples(15)
@given(twisted([CLUSTER]))
def test_clusters(document: Any) -> None:  # noqa: ANN401
    read_or_refused(clusters.decode, encode(document), codec.CodecError)


@examples(20)
@given(st.one_of(twisted([LEGACY]).map(encode).map(lambda body: body.decode(errors="replace")), st.text()))
def test_legacies(text: str) -> None:
    found = legacies.decode(text)
    assert found is None or isinstance(found, Legacy)


@examples(20)
@given(st.one_of(twisted([json.loads(STAMP.encode())]).map(encode).map(lambda body: body.decode(errors="replace"))))
def test_stamps(text: str) -> None:
    found = stamp.decode(text)
    if not found.fault:
        assert stamp.decode(found.encode()) == found
        (found.priority_class + found.resource + found.leaf).encode()


class Server:
    """An API server that lists and watches what it is given."""

    class _Connection:
        server = "https://table"

    connection = _Connection()


def reflector(decode: Callable[[bytes], Any], sink: Any, **options: Any) -> Reflector[Any]:  # noqa: ANN401
    return Reflector(cast(Client, Server()), RESOURCE_BINDINGS, decode=decode, sink=sink, **options)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


@examples(20)
@given(st.data())
def test_a_watch_goes_on_past_whatever_is_stored(data: st.DataObject) -> None:
    """Everything that has the metadata which API servers give is passed on or reported, and the next is seen."""

    async def watched() -> None:
        kinds: list[tuple[Callable[[bytes], Any], Any, dict[str, Any]]] = [
            (decode_quota, QuotaMirror(lambda _account: None, lambda *_deleted: None), QUOTA),
            (codec.decode_stored_binding, BindingMirror(Observation()), BINDING),
            (PriorityMirror.decode, PriorityMirror(), {"metadata": {"name": "high"}, "value": 5}),
        ]
        decode, sink, document = data.draw(st.sampled_from(kinds))
        metadata = {**document["metadata"], "resourceVersion": "6000"}
        hostile = data.draw(twisted([{key: value for key, value in document.items() if key != "metadata"}]))
        event = {"type": data.draw(st.sampled_from(["ADDED", "MODIFIED", "DELETED"])), "object": {"metadata": metadata}}
        mirror = reflector(decode, sink)
        body = encode(hostile)
        if isinstance(hostile, dict) and hostile and body.startswith(b"{") and "metadata" not in hostile:
            line = encode(event)[:-2] + b"," + body[1:] + b"}"
        else:
            line = encode(event)
        if rb"\ud800" in line:
            return  # nor half a surrogate
        try:
            json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return  # no API server sends what is no JSON
        mirror._take(line)
        assert mirror.version == 6000
        good = {**document, "metadata": {**document["metadata"], "resourceVersion": "6001", "name": "good"}}
        before = mirror.undecodable
        mirror._take(encode({"type": "ADDED", "object": good}))
        assert (mirror.version, mirror.undecodable) == (6001, before)

    asyncio.run(watched())


@pytest.mark.parametrize(("event", "was_deleted"), [("MODIFIED", False), ("DELETED", True)])
async def test_a_watch_reports_what_cannot_be_read(event: str, was_deleted: bool) -> None:
    reported: list[Undecodable] = []
    sink = QuotaMirror(lambda _account: None, lambda *_deleted: None)
    metadata = {**QUOTA["metadata"], "resourceVersion": "6000"}
    line = encode({"type": event, "object": {**QUOTA, "metadata": metadata, "spec": {"hard": {"cpu": []}}}})
    for told in (None, reported.append):
        mirror = reflector(decode_quota, sink, on_undecodable=told)
        mirror._take(line)
        assert (mirror.version, mirror.undecodable) == (6000, 1)
    assert [(one.name, one.was_deleted) for one in reported] == [(metadata["name"], was_deleted)]


@pytest.mark.parametrize("field", ["charge", "base", "uid", "class", "id", "binding", "time"])
def test_a_reservation_that_somebody_wrote(field: str) -> None:
    for value in HOSTILE:
        document = put(QUOTA, ("status", "reservations", 0, field), value)
        read_or_refused(decode_quota, encode(document), QuotaError)


@examples(15)
@given(twisted([LEASE]))
def test_leases(document: Any) -> None:  # noqa: ANN401
    read_or_refused(lease.decode, encode(document), lease.LeaseError)
