"""What fuzzing found, each as it was found."""

import json
import sys
from typing import Any

import pytest

from federation_quota import hooks
from federation_quota.kube import codec, legacies
from federation_quota.kube.quotas import decode_quota
from tests.fuzz.hostile import encode
from tests.fuzz.reviews import binding, review
from tests.fuzz.test_reviews import checked
from tests.fuzz.world import world

STAMP = "quota.karmada.io/stamp"


def judged(document: dict[str, Any]) -> dict[str, Any]:
    body = encode(review("resourcebindings", "work.karmada.io", document))
    return checked(hooks.VALIDATE_BINDINGS, body).response


def asking(request: dict[str, str], replicas: int = 5) -> dict[str, Any]:
    return binding(replicas=replicas, replicaRequirements={"resourceRequest": request})


def named(**metadata: str) -> dict[str, Any]:
    document = binding()
    document["metadata"] |= metadata
    return document


def stamped(text: str) -> dict[str, Any]:
    document = binding()
    document["metadata"]["annotations"][STAMP] = text
    return document


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (asking({"cpu": "1"} | {f"example.com/r{n}": "1" for n in range(200)}), "it asks for 203 resources"),
        (asking({"cpu": "1"} | {f"example.com/{'r' * 60}{n}": "1" for n in range(100)}), "more than 4096 characters"),
        (asking({f"example.com/r{n}": "9" * 900 for n in range(6)}), "more than 4096 characters"),
        (named(name="x" * 300), "its name has more than 253 characters"),
        (named(uid="x" * 300), "its uid has more than 64 characters"),
        (stamped(json.dumps({"class": "x" * 300})), "class has more than 253 characters"),
        (stamped('{"class":"\\ud800"}'), "surrogates not allowed"),
    ],
    ids=["names", "long names", "long amounts", "name", "uid", "class", "half a surrogate"],
)
def test_what_no_status_could_hold_is_refused_at_once(document: dict[str, Any], told: str) -> None:
    """An account is written as a whole: one such reservation kept all others of its quota waiting."""
    response = judged(document)
    assert response["status"]["code"] == 422
    assert told in response["status"]["message"]


def test_what_no_status_could_hold_may_still_be_made_smaller() -> None:
    names = {f"example.com/r{n}": "1" for n in range(200)}
    body = encode(review("resourcebindings", "work.karmada.io", asking(names, 4), asking(names, 5)))
    assert checked(hooks.VALIDATE_BINDINGS, body).response["allowed"]


def test_a_charge_beyond_all_that_is_read_leaves_a_quota_that_can_be_read() -> None:
    """Nobody could read the quota any more, and so nobody could end the reservation either."""
    assert judged(asking({"cpu": "1", "example.com/x": "1e999"}, replicas=5000))["allowed"]
    for name in ("cpu", "held"):
        assert decode_quota(json.dumps(world().api.quotas[name]).encode()).reservations


def test_a_quota_without_metadata_is_told_what_is_wrong_with_it() -> None:
    document = {"metadata": None, "spec": {"hard": {"cpu": "-1"}}}
    response = checked(hooks.VALIDATE_QUOTAS, encode(review("karmadaquotas", "quota.karmada.io", document))).response
    assert response["status"]["code"] == 422


def test_an_old_quota_of_another_shape_is_no_hindrance() -> None:
    """What the store holds is not the fault of who mends it."""
    old = {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": []}}, "status": {"used": {"cpu": {}}}}
    new = {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "1"}}}
    assert checked(hooks.VALIDATE_QUOTAS, encode(review("karmadaquotas", "quota.karmada.io", new, old))).response[
        "allowed"
    ]


def calls_for(components: int) -> int:
    """How much is called to work out what a binding with so many components costs."""
    parts = [
        {"name": f"c{n}", "replicas": 1, "replicaRequirements": {"resourceRequest": {f"example.com/r{n}": "1"}}}
        for n in range(components)
    ]
    clusters = [{"name": f"m{n}"} for n in range(components)]
    body = encode(binding(components=parts, clusters=clusters))
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        codec.decode_binding(body)
    finally:
        sys.setprofile(None)
    return calls


def test_what_a_binding_costs_is_worked_out_in_one_pass_over_it() -> None:
    """Twenty thousand components kept everybody waiting for more than a minute."""
    assert calls_for(800) < 3 * calls_for(400)


@pytest.mark.parametrize("text", ['{"observed":1e999,"admissions":{}}', "[" * 100_000])
def test_a_legacy_that_cannot_be_read_is_none(text: str) -> None:
    assert legacies.decode(text) is None
