"""After a refusal, on the real federation: what waits arrives by itself when there is room, and nobody else does.

Karmada tries again by itself too, later and later. So each test waits until its next try is seconds away, and looks
for the mark of having been woken.
"""

import json
from typing import Any

import pytest

from federation_quota.waiting import WOKEN_ANNOTATION
from localfed.kubectl import KubectlError
from tests.federation.manifests import DIVIDED, DUPLICATED, deployment, policy, quota
from tests.federation.retries import is_pausing
from tests.federation.stage import Stage, eventually
from tests.federation.timeline import ARRIVAL_SECONDS, Seen, Timeline, following

pytestmark = [pytest.mark.federation, pytest.mark.first(0)]  # half a minute each, most of it waiting

# Enough for room to come free and be taken, also on a busy machine.
PAUSE_SECONDS = 12


def refused(stage: Stage, *names: str) -> None:
    """Wait until they are listed, and the next try of Karmada's own is seconds away."""

    def listed() -> set[str]:
        return {one["name"] for quota in ("q", "r") for one in stage.status(quota).get("waiting") or []}

    eventually(lambda: set(names) <= listed(), what=f"{names} are on the list")
    eventually(lambda: all(is_pausing(stage, name, PAUSE_SECONDS) for name in names), what="Karmada pauses")


def woken_at(stage: Stage, name: str) -> str | None:
    """When it was woken by us, if it was."""
    found = stage.get("deployment", name) or {"metadata": {}}
    at: str | None = (found["metadata"].get("annotations") or {}).get(WOKEN_ANNOTATION)
    return at


def arrived(timeline: Timeline, freed: Seen, name: str, replicas: int, record: Any) -> Seen:  # noqa: ANN401
    """The moment that it had all its replicas; not later than promised after quota was freed."""

    def is_placed(seen: Seen) -> bool:
        return seen.name == name and seen.assigned == replicas and seen.at >= freed.at

    placed = timeline.wait(is_placed, f"{name} has {replicas} replicas")
    seconds = placed.at - freed.at
    record("arrival_seconds", round(seconds, 3))
    print(f"{name} arrived {seconds:.3f} s after quota was freed")  # noqa: T201 - with -s, for people
    assert seconds <= ARRIVAL_SECONDS
    return placed


@pytest.mark.prompt
def test_a_refused_creation_arrives_when_quota_is_freed(stage: Stage, record_property: Any) -> None:  # noqa: ANN401
    stage.apply(quota("q", {"cpu": "500m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("first", 5))
    eventually(lambda: sum(stage.clusters("first").values()) == 5)
    stage.apply(deployment("second", 4))
    refused(stage, "second")
    (listed,) = stage.status("q")["waiting"]
    assert (listed["binding"], listed["kind"], listed["charge"]["cpu"]) == ("second-deployment", "Deployment", "400m")
    assert listed["message"] == "exceeded quota: q, requested: cpu=400m, used: cpu=500m, limited: cpu=500m"
    assert stage.binding("second") is None
    assert woken_at(stage, "second") is None, "there was no room"

    with following(stage) as timeline:
        stage.delete("deployment", "first")
        arrived(timeline, timeline.deleted("first"), "second", 4, record_property)
    assert woken_at(stage, "second")
    eventually(lambda: stage.waiting() == [], what="nobody is listed any more")
    eventually(lambda: stage.used("q") == {"cpu": "400m"})
    eventually(lambda: stage.has_event("second", "Woken", "quota q has room (cpu: 400m asked, 500m left)"))
    eventually(lambda: stage.has_event("q", "QuotaExceeded", "Deployment second was refused: exceeded quota: q"))
    assert "Woken" in stage.kubectl("describe", "deployment", "second")


@pytest.mark.prompt
def test_a_refused_schedule_arrives(stage: Stage, record_property: Any) -> None:  # noqa: ANN401
    """Each of two members gets all replicas: 4 of the first, and 4 of the second where 2 were asked for."""
    stage.apply(quota("q", {"cpu": "700m"}), policy(DUPLICATED))
    stage.quota_active("q")
    stage.apply(deployment("first", 2))
    eventually(lambda: sum(stage.clusters("first").values()) == 4)
    stage.apply(deployment("second", 2))
    refused(stage, "second")
    assert stage.status("q")["waiting"][0]["charge"]["cpu"] == "400m"
    before = stage.binding("second")
    assert before is not None
    assert not before["spec"].get("clusters")

    with following(stage) as timeline:
        stage.delete("deployment", "first")
        placed = arrived(timeline, timeline.deleted("first"), "second", 4, record_property)
    assert placed.spec["rescheduleTriggeredAt"]
    assert woken_at(stage, "second") is None, "its binding was woken, not its template"
    eventually(lambda: stage.waiting() == [])
    eventually(lambda: stage.has_event("second-deployment", "Woken", "quota q has room (cpu: 200m asked"))


@pytest.mark.prompt
def test_a_refused_scale_up_arrives_and_shuffles_nothing(stage: Stage, record_property: Any) -> None:  # noqa: ANN401
    stage.apply(quota("q", {"cpu": "600m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("first", 3), deployment("second", 3))
    eventually(lambda: sum(stage.clusters("first").values()) == sum(stage.clusters("second").values()) == 3)
    before = stage.clusters("second")
    stage.kubectl("scale", "deployment", "second", "--replicas=6")
    refused(stage, "second")
    assert stage.clusters("second") == before

    with following(stage) as timeline:
        stage.delete("deployment", "first")
        placed = arrived(timeline, timeline.deleted("first"), "second", 6, record_property)
    assert "rescheduleTriggeredAt" not in placed.spec
    after = stage.clusters("second")
    assert all(after[member] >= replicas for member, replicas in before.items())
    eventually(lambda: stage.waiting() == [])


@pytest.mark.prompt
def test_a_refused_scale_up_of_every_copy_arrives(stage: Stage, record_property: Any) -> None:  # noqa: ANN401
    """Refused to the scheduler, which keeps what runs: not to be scheduled afresh, or it might be shuffled."""
    stage.apply(quota("q", {"cpu": "600m"}), policy(DUPLICATED))
    stage.quota_active("q")
    stage.apply(deployment("first", 2), deployment("second", 1))
    eventually(lambda: stage.clusters("first") == {"m1": 2, "m2": 2} and stage.clusters("second") == {"m1": 1, "m2": 1})
    stage.kubectl("scale", "deployment", "second", "--replicas=2")
    refused(stage, "second")
    assert stage.clusters("second") == {"m1": 1, "m2": 1}

    with following(stage) as timeline:
        stage.delete("deployment", "first")
        placed = arrived(timeline, timeline.deleted("first"), "second", 4, record_property)
    assert "rescheduleTriggeredAt" not in placed.spec
    assert woken_at(stage, "second")
    eventually(lambda: stage.waiting() == [])


@pytest.mark.prompt
def test_the_highest_priority_comes_first_and_nobody_is_woken_in_vain(
    stage: Stage,
    record_property: Any,  # noqa: ANN401
) -> None:
    for name, value in (("waking-high", 1000), ("waking-low", 10)):
        manifest = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        stage.federation.api.apply(manifest)
        for member in stage.federation.members:
            stage.federation.api.apply(manifest, context=member)
    stage.apply(quota("q", {"cpu": "500m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("first", 5))
    eventually(lambda: sum(stage.clusters("first").values()) == 5)
    stage.apply(
        deployment("plain", 4),
        deployment("low", 4, priority_class="waking-low"),
        deployment("high", 4, priority_class="waking-high"),
    )
    refused(stage, "plain", "low", "high")
    assert stage.waiting() == ["high", "low", "plain"], "in the order that they are tried"

    with following(stage) as timeline:
        stage.delete("deployment", "first")
        arrived(timeline, timeline.deleted("first"), "high", 4, record_property)
        eventually(lambda: stage.waiting() == ["low", "plain"])
        assert {seen.name for seen in timeline.events if seen.type == "ADDED"} == {"high"}
    assert woken_at(stage, "low") is None
    assert woken_at(stage, "plain") is None


@pytest.mark.prompt
def test_what_does_not_fit_is_not_woken_and_keeps_nobody_smaller_waiting(
    stage: Stage,
    record_property: Any,  # noqa: ANN401
) -> None:
    stage.apply(quota("q", {"cpu": "600m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("first", 3), deployment("rest", 3))
    eventually(lambda: stage.used("q") == {"cpu": "600m"})
    stage.apply(deployment("big", 5), deployment("small", 2))
    refused(stage, "big", "small")

    with following(stage) as timeline:
        stage.delete("deployment", "first")
        arrived(timeline, timeline.deleted("first"), "small", 2, record_property)
    eventually(lambda: stage.waiting() == ["big"])
    assert woken_at(stage, "big") is None


def test_a_raised_limit_and_a_deleted_quota_wake_too(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "500m"}), quota("r", {"pods": "7"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.quota_active("r")
    stage.apply(deployment("first", 5))
    eventually(lambda: stage.used("q") == {"cpu": "500m"})
    stage.apply(deployment("second", 2), deployment("third", 3))
    refused(stage, "second", "third")

    stage.apply(quota("q", {"cpu": "700m"}))
    eventually(lambda: sum(stage.clusters("second").values()) == 2, what="the second fits now")
    assert woken_at(stage, "second")
    assert woken_at(stage, "third") is None

    # The third fits neither; without the one there is still the other.
    stage.delete("karmadaquota", "q")
    eventually(lambda: stage.waiting("r") == [] and woken_at(stage, "third") is None)
    stage.delete("karmadaquota", "r")
    eventually(lambda: sum(stage.clusters("third").values()) == 3, what="nothing limits the third")


def test_what_was_refused_as_quota_was_freed_is_not_stranded(stage: Stage) -> None:
    """A refusal on its way to the list while the quota that it waits for is freed: again and again, from both sides."""
    stage.apply(quota("q", {"cpu": "500m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("w0", 5))
    eventually(lambda: sum(stage.clusters("w0").values()) == 5)
    for turn in range(1, 6):
        stage.apply(deployment(f"w{turn}", 5))
        stage.delete("deployment", f"w{turn - 1}")
        eventually(
            lambda turn=turn: sum(stage.clusters(f"w{turn}").values()) == 5,  # type: ignore[misc]
            what=f"w{turn} arrives",
        )
    eventually(lambda: stage.waiting() == [])
    eventually(lambda: stage.used("q") == {"cpu": "500m"})


def test_a_workload_that_is_gone_is_struck_off(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "500m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("first", 5))
    eventually(lambda: stage.used("q") == {"cpu": "500m"})
    stage.apply(deployment("second", 5))
    eventually(lambda: stage.waiting() == ["second"])
    stage.delete("deployment", "second")
    stage.delete("deployment", "first")
    eventually(lambda: stage.waiting() == [], what="the list is empty")
    assert stage.binding("second") is None


def test_a_wish_that_was_taken_back_is_struck_off(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "500m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("first", 5))
    eventually(lambda: sum(stage.clusters("first").values()) == 5)
    stage.kubectl("scale", "deployment", "first", "--replicas=6")
    eventually(lambda: stage.waiting() == ["first"])
    stage.kubectl("scale", "deployment", "first", "--replicas=5")
    eventually(lambda: stage.waiting() == [], what="it wants no more than it has")
    assert woken_at(stage, "first") is None


@pytest.mark.prompt
def test_a_policy_with_lazy_activation_is_no_obstacle(stage: Stage, record_property: Any) -> None:  # noqa: ANN401
    """Karmada takes changes of nothing but its own annotations for its own, and leaves them be under such a policy."""
    lazy = policy(DIVIDED)
    lazy["spec"]["activationPreference"] = "Lazy"
    stage.apply(quota("q", {"cpu": "600m"}), lazy)
    stage.quota_active("q")
    stage.apply(deployment("first", 3), deployment("second", 3))
    eventually(lambda: sum(stage.clusters("first").values()) == sum(stage.clusters("second").values()) == 3)
    stage.kubectl("scale", "deployment", "second", "--replicas=6")
    refused(stage, "second")
    with following(stage) as timeline:
        stage.delete("deployment", "first")
        arrived(timeline, timeline.deleted("first"), "second", 6, record_property)
    assert woken_at(stage, "second")


def test_a_dry_run_that_is_refused_waits_for_nothing(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "500m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("first", 5))
    eventually(lambda: stage.used("q") == {"cpu": "500m"})
    growth = json.dumps({"spec": {"replicas": 9}})
    with pytest.raises(KubectlError, match="exceeded quota: q"):
        stage.kubectl("patch", "rb", "first-deployment", "--type=merge", "--dry-run=server", "-p", growth)
    # Somebody who really waits is listed, and whoever did not would be by then.
    stage.apply(deployment("second", 1))
    eventually(lambda: stage.waiting() == ["second"])
