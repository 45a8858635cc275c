"""The sums of a census are always those of the pods that are there."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from federation_quota.binding import ObjectKey
from federation_quota.census import Census
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.lens import Lens
from federation_quota.pod import Footprint, Pod
from federation_quota.resources import NOTHING, Resources
from federation_quota.scope import Selector
from tests.unit.accounts import CLASSES, SELECTORS

NAMES = frozenset({"cpu", "pods"})
FOOTPRINTS = [
    Footprint(Resources.parse({"cpu": cpu, "memory": 1, "pods": 1}), priority_class)
    for cpu in ("100m", "250m", 1)
    for priority_class in CLASSES
]
KEYS = st.builds(ObjectKey, st.sampled_from(["a", "b"]), st.sampled_from(["x", "y", "z"]))
PODS = st.builds(Pod, KEYS, st.sampled_from([None, *FOOTPRINTS]), st.none() | st.integers(0, 20).map(float))
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), PODS),
        st.tuples(st.just("delete"), PODS),
        st.tuples(st.just("replace"), st.lists(PODS, max_size=4, unique_by=lambda pod: pod.key)),
        st.tuples(st.just("expire"), st.integers(1, 4)),
    ),
    max_size=25,
)


@given(EVENTS, SELECTORS)
def test_whatever_happens_the_sums_are_those_of_the_pods_there(
    events: list[tuple[str, object]], selector: Selector
) -> None:
    lens = Lens(selector, NAMES)
    changed: set[str] = set()
    census = Census(changed.update)
    there: dict[ObjectKey, Pod] = {}
    now = 0.0
    for what, given_ in events:
        before = {namespace: census.observed(namespace, lens) for namespace in "ab"}
        changed.clear()
        match what, given_:
            case "upsert", Pod() as pod:
                census.upsert(pod)
                there[pod.key] = pod
            case "delete", Pod() as pod:
                census.delete(pod)
                there.pop(pod.key, None)
            case "replace", list() as pods:
                census.replace(pods, 1)
                there = {pod.key: pod for pod in pods}
            case "expire", int() as seconds:
                now += seconds
                census.expire(now)
        for namespace in "ab":
            assert census.observed(namespace, lens) == added_up(there.values(), namespace, lens, now)
            assert namespace in changed or census.observed(namespace, lens) == before[namespace]
        assert len(census) == sum(is_there(pod, now) for pod in there.values())


def is_there(pod: Pod, now: float) -> bool:
    return pod.footprint is not None and (pod.gone_at is None or pod.gone_at >= now)


def added_up(pods: Iterable[Pod], namespace: str, lens: Lens, now: float) -> Resources:
    total = NOTHING
    for pod in pods:
        if pod.key.namespace == namespace and is_there(pod, now) and pod.footprint is not None:
            total += lens.cost(Claim(pod.footprint.usage, pod.footprint.priority_class))
    return total


def test_a_pod_that_comes_back_under_the_name_of_one_that_should_be_gone_counts() -> None:
    census = Census()
    key, footprint = ObjectKey("a", "web-0"), FOOTPRINTS[0]
    census.upsert(Pod(key, footprint, gone_at=10.0))
    census.delete(Pod(key, footprint, gone_at=10.0))
    census.upsert(Pod(key, footprint))
    census.expire(11.0)
    assert len(census) == 1


def test_a_pod_that_is_seen_again_ends_when_it_was_to_end() -> None:
    census = Census()
    for _ in range(2):
        census.upsert(Pod(ObjectKey("a", "web-0"), FOOTPRINTS[0], gone_at=10.0))
    assert len(census) == 1
    census.expire(11.0)
    assert len(census) == 0


def test_an_event_that_changes_nothing_is_no_news() -> None:
    told: list[Iterable[str]] = []
    census = Census(told.append)
    pod = Pod(ObjectKey("a", "x"), FOOTPRINTS[0])
    census.upsert(pod)
    census.upsert(pod)
    assert len(told) == 1
