"""What a binding costs while clusters are lost and replaced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota import charge
from federation_quota.binding import ClusterShare
from federation_quota.charge import ComponentTerms, Cost, Request, Target, Terms
from federation_quota.resources import Resources
from federation_quota.stamp import Stamp

ONE_CPU: Request = (("cpu", "1"),)


def targets(replicas: dict[str, int]) -> tuple[Target, ...]:
    return tuple(Target(name, count) for name, count in replicas.items())


def shares(replicas: dict[str, int]) -> tuple[ClusterShare, ...]:
    return tuple(ClusterShare(name, count) for name, count in replicas.items())


def cost(terms: Terms) -> Cost:
    return charge.cost(terms, Stamp(resource="deployments"))


@st.composite
def failovers(draw: st.DrawFn) -> list[Terms]:
    """A placed workload; then, in any order, clusters lost, what is missing given to others, tasks done with.

    Each step leaves a state that Karmada stores. When its scheduler acts it gives a divided workload all its replicas
    and a duplicated one at least as many clusters as the placement needs, and no more than it had: more would not be
    failover.
    """
    is_divided = draw(st.booleans())
    with_components = draw(st.booleans())
    wanted = 0 if with_components else draw(st.integers(1, 50))
    minimum = draw(st.integers(1, 3))
    count = draw(st.integers(minimum, 5))
    fresh = iter(f"m{number}" for number in range(1000))

    def place(clusters: int, kept: dict[str, int]) -> dict[str, int]:
        names = [*kept, *(next(fresh) for _ in range(clusters - len(kept)))]
        if with_components or not is_divided:
            return dict.fromkeys(names, wanted)
        missing = wanted - sum(kept.values())
        cuts = sorted(draw(st.integers(0, missing)) for _ in names[1:])
        parts = [high - low for low, high in zip([0, *cuts], [*cuts, missing], strict=True)]
        return {name: kept.get(name, 0) + part for name, part in zip(names, parts, strict=True)}

    given_to = place(count, {})
    tasks: dict[str, int] = {}

    def terms() -> Terms:
        return Terms(
            "apps/v1",
            "Deployment",
            replicas=wanted,
            request=() if with_components else ONE_CPU,
            components=(ComponentTerms("c", 2, ONE_CPU),) if with_components else (),
            targets=targets(given_to),
            evicted=shares(tasks),
            is_divided=is_divided,
            minimum_clusters=minimum,
        )

    states = [terms()]
    for step in draw(st.lists(st.sampled_from(("evict", "schedule", "purge")), max_size=12)):
        if step == "evict" and given_to:
            name = draw(st.sampled_from(sorted(given_to)))
            tasks[name] = given_to.pop(name)
        elif step == "schedule":
            fewest = max(len(given_to), 1 if is_divided else minimum)
            given_to = place(draw(st.integers(fewest, max(fewest, count))), given_to)
        elif step == "purge" and tasks:
            del tasks[draw(st.sampled_from(sorted(tasks)))]
        states.append(terms())
    return states


@given(failovers())
def test_a_failover_never_costs_more_than_there_was(states: list[Terms]) -> None:
    first = cost(states[0])
    before = first.demand.maximum(first.assigned)
    for state in states:
        result = cost(state)
        assert not [name for name in result.assigned if result.assigned[name] > before[name]]


@given(failovers())
def test_nobody_takes_the_place_of_what_must_come_back(states: list[Terms]) -> None:
    """While a task is there for it, assigned stays at what the placement cannot do without."""
    for state in states:
        if state.components:
            copies = 1 if state.is_divided else state.minimum_clusters
            due = copies * 2
            at_hand = 2 * (len(state.targets) + len(state.evicted))
        else:
            due = state.replicas * (1 if state.is_divided else state.minimum_clusters)
            at_hand = sum(target.replicas for target in state.targets) + sum(share.replicas for share in state.evicted)
        assert cost(state).assigned["cpu"].whole() >= min(due, at_hand)


@pytest.mark.parametrize(
    ("given_to", "evicted", "is_divided", "minimum", "assigned"),
    [
        ({"m1": 6, "m2": 4}, {}, True, 1, 10),
        ({"m2": 4}, {"m1": 6}, True, 1, 10),  # not replaced yet
        ({"m2": 4}, {"m1": 9}, True, 2, 10),  # the fewest clusters are no matter where replicas are divided
        ({"m2": 4, "m3": 2}, {"m1": 6}, True, 1, 10),  # in part
        ({"m2": 4, "m3": 6}, {"m1": 6}, True, 1, 10),  # replaced, the task still there
        ({}, {"m1": 6, "m2": 4}, True, 1, 10),
        ({"m2": 4}, {"m1": 6, "m3": 6}, True, 1, 10),  # what replaced it was lost as well
        ({"m1": 10, "m2": 10}, {}, False, 2, 20),
        ({"m2": 10}, {"m1": 10}, False, 2, 20),  # a second copy must come
        ({"m2": 10, "m3": 10}, {"m1": 10}, False, 2, 20),
        ({"m2": 10}, {"m1": 10}, False, 1, 10),  # none need come
        ({}, {"m1": 10}, False, 1, 10),
    ],
)
def test_failover_step_by_step(
    given_to: dict[str, int], evicted: dict[str, int], is_divided: bool, minimum: int, assigned: int
) -> None:
    terms = Terms(
        "apps/v1",
        "Deployment",
        replicas=10,
        request=ONE_CPU,
        targets=targets(given_to),
        evicted=shares(evicted),
        is_divided=is_divided,
        minimum_clusters=minimum,
    )
    assert cost(terms).assigned == Resources.parse({"cpu": assigned, "pods": assigned, "count/deployments.apps": 1})
