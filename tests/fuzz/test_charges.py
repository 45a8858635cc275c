"""What is let through is charged, with exactly what it costs by an independent reading of the same bytes."""

import json
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from federation_quota import hooks
from tests import rational
from tests.fuzz.budget import examples
from tests.fuzz.hostile import encode, twisted
from tests.fuzz.reviews import binding, review
from tests.fuzz.test_reviews import checked
from tests.fuzz.world import STORED, Answer, world

NANO = 10**9
LARGEST = 10**1009 - 1  # what a status can hold
OBJECT = "count/deployments.apps"
LIMITS = {"cpu": 10**6, "pods": 2 * 10**9, "memory": 2**60, OBJECT: 10}

AMOUNTS = st.one_of(
    st.integers(0, 10**6),
    st.sampled_from(
        ["1", "250m", "1.5", "1Gi", "3Mi", "0", "1e3", "0.0001", "1n", "2u", "1500m", "0.5Ki", "1E", "7Ei"]
    ),
)
NAMES = st.sampled_from(["cpu", "requests.cpu", "memory", "pods", "example.com/a", "nvidia.com/gpu", "services"])
REQUESTS = st.dictionaries(NAMES, AMOUNTS, max_size=5)
CLUSTERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["m1", "m2", "m3"])}, optional={"replicas": st.integers(0, 50)}),
    max_size=3,
)


def total(requests: Iterable[tuple[str, str | int]]) -> dict[str, int]:
    """One replica's request in nano units, by the names that quotas are kept under."""
    found: dict[str, int] = {"pods": NANO}
    for name, text in requests:
        bare = name.removeprefix("requests.")
        if bare != "pods":
            bare = f"count/{bare}" if bare == "services" else bare
            found[bare] = found.get(bare, 0) + rational.nano(str(text))
    if found.get("nvidia.com/gpu"):
        found["quota.karmada.io/gpu-memory"] = 32 * found["nvidia.com/gpu"]
    return found


def cost(spec: dict[str, Any]) -> dict[str, int]:
    """The larger of what is asked for and what is given, and the object."""
    replicas = max(spec.get("replicas") or 0, sum(one.get("replicas") or 0 for one in spec.get("clusters") or ()))
    request = ((spec.get("replicaRequirements") or {}).get("resourceRequest") or {}).items()
    charge = {name: amount * replicas for name, amount in total(request).items()}
    charge[OBJECT] = charge.get(OBJECT, 0) + NANO
    return {name: min(amount, LARGEST) for name, amount in charge.items() if amount}


def judged(new: dict[str, Any], old: dict[str, Any] | None = None) -> Answer:
    """What the validating hook says, and what was charged."""
    body = encode(review("resourcebindings", "work.karmada.io", new, old))
    return checked(hooks.VALIDATE_BINDINGS, body, new["metadata"]["name"])


def read(charge: dict[str, str]) -> dict[str, int]:
    return {name: rational.nano(text) for name, text in charge.items()}


@examples(20)
@given(replicas=st.integers(0, 10_000), request=REQUESTS, clusters=CLUSTERS)
def test_a_new_binding(replicas: int, request: dict[str, str | int], clusters: list[dict[str, Any]]) -> None:
    document = binding(replicas=replicas, clusters=clusters, replicaRequirements={"resourceRequest": request})
    answer = judged(document)
    expected = cost(document["spec"])
    stored = cost(STORED["spec"])
    fits = all(expected.get(name, 0) + stored.get(name, 0) <= limit * NANO for name, limit in LIMITS.items())
    assert answer.response["allowed"] is fits, answer.body
    if fits:
        assert set(answer.charges) <= {"cpu", "held"}
        assert "held" in answer.charges  # which counts the object
        assert ("cpu" in answer.charges) is bool(expected.get("cpu") or expected.get("pods"))
        assert all(read(charge) == expected for charge in answer.charges.values())


@examples(10)
@given(st.integers(0, 5000), st.integers(0, 5000))
def test_a_change(replicas: int, given_away: int) -> None:
    """Only what grows is charged, and then the whole of it."""
    document = json.loads(json.dumps(STORED))
    document["spec"] |= {"replicas": replicas, "clusters": [{"name": "m1", "replicas": given_away}]}
    answer = judged(document, STORED)
    assert answer.response["allowed"]
    grows = max(replicas, given_away) > 5
    assert bool(answer.charges) is grows
    expected = {name: Fraction(amount) for name, amount in cost(document["spec"]).items()}
    assert all(read(charge) == expected for charge in answer.charges.values())


@examples(25)
@given(st.data())
def test_whatever_is_wrong_with_it(data: st.DataObject) -> None:
    """Where Python reads the twisted binding at all, and it is let through, it was charged with what it says."""
    spec = data.draw(twisted([binding()["spec"]], most=2))
    document = {**binding(), "spec": spec}
    answer = judged(document)
    if answer.status != 200 or not answer.response["allowed"]:
        return
    try:
        found = json.loads(encode(spec))
    except (ValueError, RecursionError):
        return  # Python reads less than the wire may carry, and what that says is nobody's cost
    known = {"components", "gracefulEvictionTasks", "requiredBy", "suspension"}
    if known & set(found) or found["resource"] != binding()["spec"]["resource"]:
        return
    assert set(answer.charges) == {"cpu", "held"} - ({"cpu"} if not found.get("replicas") else set())
    assert all(read(charge) == cost(found) for charge in answer.charges.values())


def test_it_is_this_very_binding_that_is_charged() -> None:
    body = encode(review("resourcebindings", "work.karmada.io", binding("fresh-deployment")))
    assert set(world().ask(hooks.VALIDATE_BINDINGS, body, "another").charges) == set()
    assert set(world().ask(hooks.VALIDATE_BINDINGS, body, "fresh-deployment").charges) == {"cpu", "held"}
