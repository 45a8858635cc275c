"""`onExceeded: Hold` on the real federation: accepted, kept back, and released by itself when there is room."""

import json
from typing import Any

import pytest

from federation_quota.stamp import HELD_LABEL
from localfed.kubectl import KubectlError
from tests.federation.manifests import DIVIDED, deployment, policy, quota
from tests.federation.stage import Stage, eventually
from tests.federation.timeline import ARRIVAL_SECONDS, Seen, following

pytestmark = pytest.mark.federation


def holding(stage: Stage, cpu: str, *more: dict[str, Any]) -> None:
    """A quota that holds, in force."""
    stage.apply(quota("q", {"cpu": cpu}, onExceeded="Hold"), policy(DIVIDED), *more)
    stage.quota_active("q")


def is_held(stage: Stage, name: str) -> bool:
    found = stage.binding(name)
    return found is not None and _is_held(found)


def _is_held(binding: dict[str, Any]) -> bool:
    marked = (binding["metadata"].get("labels") or {}).get(HELD_LABEL) == "true"
    suspended = (binding["spec"].get("suspension") or {}).get("scheduling") is True
    assert marked == suspended, "our mark, and what it stands for"
    return marked


def patch(stage: Stage, name: str, change: dict[str, Any]) -> None:
    stage.kubectl("patch", "resourcebinding", f"{name}-deployment", "--type=merge", "-p", json.dumps(change))


def running(stage: Stage, name: str, replicas: int) -> None:
    stage.apply(deployment(name, replicas))
    eventually(lambda: sum(stage.clusters(name).values()) == replicas, what=f"{name} runs")


@pytest.mark.prompt
def test_what_does_not_fit_is_held_and_released_when_it_fits(
    stage: Stage,
    record_property: Any,  # noqa: ANN401
) -> None:
    holding(stage, "500m")
    running(stage, "first", 5)
    stage.apply(deployment("second", 4))
    eventually(lambda: is_held(stage, "second"), what="the second is held")
    eventually(lambda: stage.has_event("second", "Held", "quota q has no room (cpu: 400m asked, 0 left)"))
    assert stage.has_event("second-deployment", "Held", "it is held until it fits")
    assert stage.clusters("second") == {}
    assert stage.used("q") == {"cpu": "500m"}, "what is held costs nothing"
    assert stage.status("q").get("waiting") in (None, []), "nobody was refused"
    assert "second-deployment" in stage.kubectl("get", "resourcebindings", "-l", f"{HELD_LABEL}=true")

    with following(stage) as timeline:
        stage.delete("deployment", "first")
        freed = timeline.deleted("first")
        placed = timeline.wait(lambda seen: seen.name == "second" and seen.assigned == 4, "the second is placed")
    seconds = placed.at - freed.at
    record_property("arrival_seconds", round(seconds, 3))
    print(f"released and placed {seconds:.3f} s after quota was freed")  # noqa: T201 - with -s, for people
    assert seconds <= ARRIVAL_SECONDS
    assert not is_held(stage, "second")
    assert stage.binding("second")["spec"]["suspension"] == {"scheduling": False}  # type: ignore[index]
    eventually(lambda: sum(stage.in_members("second").values()) == 4)
    eventually(lambda: stage.used("q") == {"cpu": "400m"})
    eventually(lambda: stage.has_event("second", "Released", "quota q has room (cpu: 400m asked, 500m left)"))


def test_nothing_held_reaches_a_member_whatever_touches_it(stage: Stage) -> None:
    holding(stage, "500m")
    running(stage, "first", 5)
    stage.apply(deployment("second", 4))
    eventually(lambda: is_held(stage, "second"))
    stage.kubectl("scale", "deployment", "second", "--replicas=3")
    eventually(lambda: stage.binding("second")["spec"]["replicas"] == 3)  # type: ignore[index]
    stage.kubectl("annotate", "deployment", "second", "touched=yes")
    patch(stage, "second", {"spec": {"rescheduleTriggeredAt": "2026-01-01T00:00:00Z"}})
    # What a scheduler that does not look at the suspension would do.
    with pytest.raises(KubectlError, match="it is given no clusters meanwhile"):
        patch(stage, "second", {"spec": {"clusters": [{"name": "m1", "replicas": 3}]}})
    stage.apply(deployment("third", 1))
    eventually(lambda: is_held(stage, "third"), what="Karmada has been through what came before")
    assert is_held(stage, "second")
    assert stage.clusters("second") == {}
    assert stage.in_members("second") == {}


def test_nobody_else_releases_or_marks(stage: Stage) -> None:
    holding(stage, "500m")
    running(stage, "first", 5)
    stage.apply(deployment("second", 4))
    eventually(lambda: is_held(stage, "second"))
    for change in (
        {"spec": {"suspension": {"scheduling": False}}},
        {"spec": {"suspension": None}},
        {"metadata": {"labels": {HELD_LABEL: None}}, "spec": {"suspension": {"scheduling": False}}},
    ):
        with pytest.raises(KubectlError, match="is held until its quota has room: federation-quota alone releases it"):
            patch(stage, "second", change)
    mark: dict[str, Any] = {"metadata": {"labels": {HELD_LABEL: "true"}}}
    for change in (mark, mark | {"spec": {"suspension": {"scheduling": True}}}):
        with pytest.raises(KubectlError, match="can be marked as held by federation-quota alone"):
            patch(stage, "first", change)
    with pytest.raises(KubectlError, match="federation-quota alone"):
        patch(stage, "second", {"metadata": {"labels": {HELD_LABEL: None}}})
    assert is_held(stage, "second")
    assert not is_held(stage, "first")


@pytest.mark.parametrize("change", ["raise the limit", "delete the quota", "only warn", "deny, and make room"])
def test_released_when_the_quota_changes(stage: Stage, change: str) -> None:
    holding(stage, "500m")
    running(stage, "first", 5)
    stage.apply(deployment("second", 4))
    eventually(lambda: is_held(stage, "second"))
    if change == "raise the limit":
        stage.apply(quota("q", {"cpu": "900m"}, onExceeded="Hold"))
    elif change == "delete the quota":
        stage.delete("karmadaquota", "q")
    elif change == "only warn":
        stage.apply(quota("q", {"cpu": "500m"}, onExceeded="Warn"))
    else:
        stage.apply(quota("q", {"cpu": "500m"}, onExceeded="Deny"))
        stage.apply(deployment("third", 1))
        eventually(lambda: stage.is_refused("third", "exceeded quota: q"))
        assert is_held(stage, "second"), "it stays until it fits"
        stage.delete("deployment", "third")
        stage.delete("deployment", "first")
    eventually(lambda: sum(stage.clusters("second").values()) == 4, what="it is released and placed")
    assert not is_held(stage, "second")


def test_the_highest_priority_is_released_first_and_only_what_fits(stage: Stage) -> None:
    for name, value in (("holding-high", 1000), ("holding-low", 10)):
        manifest = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        stage.federation.api.apply(manifest)
        for member in stage.federation.members:
            stage.federation.api.apply(manifest, context=member)
    holding(stage, "500m")
    running(stage, "first", 5)
    stage.apply(
        deployment("plain", 3),
        deployment("low", 3, priority_class="holding-low"),
        deployment("high", 3, priority_class="holding-high"),
    )
    eventually(lambda: all(is_held(stage, name) for name in ("plain", "low", "high")))
    with following(stage) as timeline:
        stage.delete("deployment", "first")
        timeline.wait(lambda seen: seen.name == "high" and seen.assigned == 3, "the highest is placed")
        eventually(lambda: stage.used("q") == {"cpu": "300m"})
        released = {seen.name for seen in timeline.events if seen.type == "MODIFIED" and not _is_held(seen.binding)}
    assert released - {"first"} == {"high"}
    assert is_held(stage, "low")
    assert is_held(stage, "plain")


def test_a_scale_up_is_held_while_what_runs_goes_on(stage: Stage) -> None:
    holding(stage, "600m")
    running(stage, "first", 3)
    running(stage, "second", 3)
    before = stage.clusters("second")
    stage.kubectl("scale", "deployment", "second", "--replicas=6")
    eventually(lambda: is_held(stage, "second"), what="its growth is held")
    assert stage.binding("second")["spec"]["replicas"] == 6  # type: ignore[index]
    assert stage.clusters("second") == before
    eventually(lambda: sum(stage.in_members("second").values()) == 3)
    assert stage.used("q") == {"cpu": "600m"}, "it costs what it has"
    eventually(lambda: stage.has_event("second", "Held", "its growth is held until it fits: quota q has no room"))

    # More for each replica is refused: what runs could not go on as it is.
    stage.kubectl("set", "resources", "deployment", "second", "--requests=cpu=200m")
    eventually(lambda: stage.is_refused("second", "exceeded quota: q, requested: cpu=300m"))
    stage.kubectl("set", "resources", "deployment", "second", "--requests=cpu=100m")

    with following(stage) as timeline:
        stage.delete("deployment", "first")
        placed = timeline.wait(lambda seen: seen.name == "second" and seen.assigned == 6, "it has grown")
    after = {one["name"]: one["replicas"] for one in placed.spec["clusters"]}
    assert all(after[member] >= replicas for member, replicas in before.items()), "nothing was shuffled"
    assert not is_held(stage, "second")


def test_a_scale_up_that_is_taken_back_needs_no_room(stage: Stage) -> None:
    holding(stage, "600m")
    running(stage, "first", 3)
    running(stage, "second", 3)
    stage.kubectl("scale", "deployment", "second", "--replicas=6")
    eventually(lambda: is_held(stage, "second"))
    stage.kubectl("scale", "deployment", "second", "--replicas=2")
    eventually(lambda: sum(stage.clusters("second").values()) == 2, what="released, and scaled down")
    assert not is_held(stage, "second")


def test_a_held_scale_up_that_loses_a_cluster_goes_on_at_its_size(stage: Stage) -> None:
    """Suspended, it would not be placed anew: it would lose what ran for having asked for more."""
    holding(stage, "600m")
    running(stage, "first", 2)
    running(stage, "second", 4)
    before = stage.clusters("second")
    assert before == {"m1": 2, "m2": 2}
    stage.kubectl("scale", "deployment", "second", "--replicas=6")
    eventually(lambda: is_held(stage, "second"))
    # As Karmada evicts: the cluster leaves the list, and a task remembers it.
    task = {"fromCluster": "m2", "replicas": 2, "reason": "test", "producer": "test", "purgeMode": "Gracefully"}
    change = {"clusters": [{"name": "m1", "replicas": 2}], "gracefulEvictionTasks": [task]}
    patch(stage, "second", {"spec": change})
    eventually(lambda: sum(stage.clusters("second").values()) == 4, what="it is placed anew")
    assert not is_held(stage, "second")
    assert stage.used("q") == {"cpu": "600m"}
    eventually(lambda: stage.waiting() == ["second"], what="its growth waits")
    stage.delete("deployment", "first")
    eventually(lambda: sum(stage.clusters("second").values()) == 6, what="its growth arrives")
    eventually(lambda: stage.waiting() == [])


def test_what_others_suspended_is_theirs(stage: Stage) -> None:
    holding(stage, "500m")
    running(stage, "first", 2)
    theirs = stage.binding("first")
    assert theirs is not None
    theirs["metadata"] = {"name": "theirs", "labels": {HELD_LABEL: "true"}}  # even where they say it were ours
    theirs["spec"] |= {"replicas": 3, "suspension": {"scheduling": True}}
    theirs["spec"].pop("clusters")
    theirs.pop("status", None)
    stage.kubectl("create", "-f", "-", manifest=json.dumps(theirs))
    eventually(lambda: stage.used("q") == {"cpu": "500m"}, what="it costs what it asks for")
    found = stage.get("resourcebinding", "theirs")
    assert found is not None
    assert HELD_LABEL not in (found["metadata"].get("labels") or {})

    # It does not fit, and cannot be held: it is refused.
    theirs["metadata"] = {"name": "more"}
    with pytest.raises(KubectlError, match="exceeded quota: q, requested: cpu=300m"):
        stage.kubectl("create", "-f", "-", manifest=json.dumps(theirs))

    stage.apply(deployment("second", 1))
    eventually(lambda: is_held(stage, "second"))
    stage.delete("karmadaquota", "q")
    eventually(lambda: sum(stage.clusters("second").values()) == 1, what="ours is released")
    found = stage.get("resourcebinding", "theirs")
    assert found is not None
    assert found["spec"]["suspension"] == {"scheduling": True}


def test_a_quota_that_denies_goes_before_one_that_holds(stage: Stage) -> None:
    holding(stage, "500m", quota("r", {"pods": "6"}))
    stage.quota_active("r")
    running(stage, "first", 5)
    stage.apply(deployment("second", 2))
    eventually(lambda: stage.is_refused("second", "exceeded quota"))
    assert stage.binding("second") is None
    stage.apply(deployment("third", 1))
    eventually(lambda: is_held(stage, "third"), what="the third fits the one that denies, and is held by the other")


def test_many_at_once_are_held_or_placed_and_never_more_than_fit(stage: Stage) -> None:
    holding(stage, "500m")
    names = [f"w{number}" for number in range(8)]

    def placed(seen: Seen) -> bool:
        return seen.type != "DELETED" and seen.assigned == 2

    with following(stage) as timeline:
        stage.apply(*(deployment(name, 2) for name in names))
        eventually(lambda: all(stage.binding(name) for name in names), what="all were accepted")
        eventually(lambda: stage.used("q") == {"cpu": "400m"})
        eventually(lambda: {seen.name for seen in timeline.events if placed(seen)}, what="the watch has caught up")
        assert len({name for name in names if stage.clusters(name)}) == 2
        arrived = 2
        while arrived < len(names):
            running_now = [name for name in names if stage.clusters(name)]
            stage.delete("deployment", running_now[0])
            arrived += 1
            eventually(
                lambda arrived=arrived: len({seen.name for seen in timeline.events if placed(seen)}) == arrived,  # type: ignore[misc]
                what="another takes its place",
            )
