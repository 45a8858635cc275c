"""What holds of limits whatever they are, whoever comes, and in whatever order.

The product's own schemes, view, accounts and judge, beside everything worked out anew from what runs
(`limits_world.Plain`), which keeps nothing that could go wrong.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from federation_quota.ledger.level import APPLICATIONS
from federation_quota.ledger.view import View
from federation_quota.limits import hierarchy, limit, validation
from federation_quota.limits.hierarchy import ROOT, Level
from federation_quota.limits.lens import UsageLens
from federation_quota.limits.limit import WILDCARD, Limit
from federation_quota.limits.scheme import Scheme
from federation_quota.quantity import Quantity, parse
from federation_quota.resources import Resources
from federation_quota.stamp import Owner
from tests.conformance.limits_world import NAMESPACE, TREE, Application, Plain, World
from tests.unit.limit_trees import (
    GROUPS,
    LEAVES,
    OWNERS,
    PATHS,
    STEPS,
    USERS,
    Workload,
    config,
    levels,
    node_limits,
    workloads,
)

Levels = dict[str, Level]
Steps = list[tuple[int, Mapping[str, Quantity] | None]]
NOBODY = Owner("dan", ("guests",))


def world_of(found: Levels) -> World:
    world = World()
    world.configure(config(found))
    for path in PATHS.values():
        world.headroom(path, NOBODY)  # so that every leaf is known, whether or not anything stands on it
    return world


def take(world: World, one: Workload, amounts: Mapping[str, Quantity] | None) -> bool:
    """One step: whether it was let through."""
    wanted = None if amounts is None else Application(PATHS[one.leaf], one.owner, Resources(amounts))
    if wanted is not None and world.exceeded(one.name, wanted):
        return False
    world.store(one.name, wanted)
    return True


def run(world: World, present: list[Workload], steps: Steps) -> Iterator[tuple[Workload, bool]]:
    for number, amounts in steps:
        one = present[number % len(present)]
        yield one, take(world, one, amounts)


def books(world: World) -> dict[str, Resources]:
    """What is used of every account that a workload could have, as the product adds it up."""
    claims = {}
    for path in PATHS.values():
        for user in USERS:
            for group in (*GROUPS, ""):
                claim = world.claim(path, Owner(user, (group,) if group else ()), Resources())
                claims[world.schemes.subjects(claim)] = claim  # who pays for one pays for all of them alike
    return {one.account.name: one.used for claim in claims.values() for one in world.accounts(claim)}


def over(world: World) -> list[tuple[str, str, str]]:
    """Every limit that is exceeded, worked out plainly: kind, name and place."""
    plain = Plain(world.config, world.applications)
    found = []
    for kind, used in plain.used().items():
        for name, nodes in used.items():
            for path in nodes:
                most = plain.limit(kind, name, path)
                apps = plain.charged(kind, name, path)
                total = Resources.sum(world.applications[app].usage for app in apps)
                if most is None:
                    continue
                is_over = any(total[resource] > amount for resource, amount in most.resources.items())
                if is_over or (most.applications is not None and len(apps) > most.applications):
                    found.append((kind, name, path))
    return found


@given(levels(), workloads(), STEPS)
def test_no_limit_is_ever_exceeded_whatever_the_order(found: Levels, present: list[Workload], steps: Steps) -> None:
    world = world_of(found)
    for _ in run(world, present, steps):
        assert over(world) == []


@given(levels(), workloads(), STEPS)
def test_what_is_refused_would_exceed_a_limit_and_leaves_nothing(
    found: Levels, present: list[Workload], steps: Steps
) -> None:
    world = world_of(found)
    for number, amounts in steps:
        one = present[number % len(present)]
        before = (books(world), world.used())
        if take(world, one, amounts):
            continue
        assert (books(world), world.used()) == before
        assert not take(world, one, amounts), "asked again, it is the same"
        world.store(one.name, Application(PATHS[one.leaf], one.owner, Resources(amounts or {})))
        assert over(world), "nothing would have been exceeded"
        break


@given(levels(), levels(), workloads(), STEPS)
def test_less_is_never_refused_however_low_the_limits_have_become(
    found: Levels, lower: Levels, present: list[Workload], steps: Steps
) -> None:
    world = world_of(found)
    for _ in run(world, present, steps):
        pass
    world.configure(config(lower))
    for one in present:
        known = world.applications.get(one.name)
        if known is not None:
            half = Resources({name: parse(amount.whole() // 2) for name, amount in known.usage.items()})
            assert world.exceeded(one.name, replace(known, usage=half)) == set()


@given(levels(("users",)), workloads(), STEPS)
def test_a_wildcard_among_users_is_everybodys_own(found: Levels, present: list[Workload], steps: Steps) -> None:
    """However much others use, what is left for somebody is what their own use leaves."""
    world, stranger = world_of(found), Owner("dan")
    before = {path: world.headroom(path, stranger) for path in PATHS.values()}
    for _ in run(world, present, steps):
        assert {path: world.headroom(path, stranger) for path in PATHS.values()} == before


@given(levels(("groups",)), workloads(), STEPS)
def test_a_wildcard_among_groups_is_one_for_all_who_are_in_no_named_one(
    found: Levels, present: list[Workload], steps: Steps
) -> None:
    """Strangers of any groups, and of none, have the same left, at every moment."""
    world = world_of(found)
    for _ in run(world, present, steps):
        for path in PATHS.values():
            assert world.headroom(path, NOBODY) == world.headroom(path, Owner("eve"))


@given(levels(), OWNERS, st.sampled_from(LEAVES), st.randoms(use_true_random=False))
def test_one_group_pays_and_it_is_the_same_however_it_is_asked(
    found: Levels,
    owner: Owner,
    leaf: str,
    random: Any,  # noqa: ANN401 # Hypothesis' own
) -> None:
    scheme = Scheme.of(TREE, found.values())
    groups, nodes = list(owner.groups), list(found.values())
    random.shuffle(groups)
    random.shuffle(nodes)
    paying = scheme.group_of(owner.groups, leaf)
    assert Scheme.of(TREE, nodes).group_of(groups, leaf) == paying
    assert paying in {*owner.groups, WILDCARD, ""}
    # How much anybody may have decides nothing about who pays.
    freed = {
        name: replace(one, limits=tuple(replace(each, resources={}, applications=1) for each in one.limits))
        for name, one in found.items()
    }
    assert Scheme.of(TREE, freed.values()).group_of(owner.groups, leaf) == paying
    assert paying == Plain(config(found), {}).group(owner, PATHS[leaf])


@given(levels(), workloads(), STEPS)
def test_what_was_kept_up_to_date_is_what_a_list_gives(found: Levels, present: list[Workload], steps: Steps) -> None:
    world = world_of(found)
    for _ in run(world, present, steps):
        pass
    kept = books(world)
    fresh = View()
    fresh.charge_to(world.schemes.domains if world.schemes.by_tree else None)
    entries = world.view.entries(NAMESPACE)
    fresh.replace(((NAMESPACE, name, entry) for name, entry in entries.items()), world.view.version)
    world.view = fresh
    assert books(world) == kept


@given(levels(), levels(), workloads(), STEPS)
def test_limits_that_go_and_come_again_find_everything_as_it_was(
    found: Levels, others: Levels, present: list[Workload], steps: Steps
) -> None:
    world = world_of(found)
    for _ in run(world, present, steps):
        pass
    kept, left = books(world), {path: world.headroom(path, NOBODY) for path in PATHS.values()}
    for between in ({ROOT: Level(ROOT)}, others):
        world.configure(config(between))
        assert world.used() == Plain(world.config, world.applications).used()
        world.configure(config(found))
        assert books(world) == kept
        assert {path: world.headroom(path, NOBODY) for path in PATHS.values()} == left


@given(levels(), levels())
def test_whose_limits_change_has_to_be_joined_anew_and_nobody_else(one: Levels, other: Levels) -> None:
    before, after = Scheme.of(TREE, one.values()), Scheme.of(TREE, other.values())
    for subject in {*before.named(), *after.named()}:
        lenses = [UsageLens.of(subject, scheme) for scheme in (before, after)]
        if lenses[0].limits != lenses[1].limits:
            assert lenses[0].shape != lenses[1].shape
        elif before.groups_digest == after.groups_digest:
            assert lenses[0].shape == lenses[1].shape


def errors(found: Levels) -> list[str]:
    return [str(error) for name in found for error in hierarchy.check(found, name)]


def fitted(found: Levels) -> Levels:
    """The tree with every limit lowered until the rules hold; what would allow nothing is left out."""
    made = dict(found)
    for name in (ROOT, *(one for one in found if one != ROOT)):
        above = hierarchy._above(made, name)
        limits = tuple(_lowered(one, above) for one in made[name].limits)
        made[name] = replace(made[name], limits=limits)
    return made


def _lowered(one: Limit, above: list[Level]) -> Limit:
    kind, (who,) = ("user", one.users) if one.users else ("group", one.groups)
    for upper in above:
        entry = upper.entry(kind, who) or upper.entry(kind, WILDCARD)
        if entry is not None:
            most = entry[1]
            resources = {name: min(amount, most.resources.get(name, amount)) for name, amount in one.resources.items()}
            counts = [count for count in (one.applications, most.applications) if count is not None]
            one = replace(one, resources=resources, applications=min(counts, default=None))
    return one


@given(levels())
def test_what_the_rules_take_can_all_be_reached(found: Levels) -> None:
    """On the node that says it, with nothing used, everybody who is named has as much as their entry says."""
    made = fitted(found)
    assert errors(made) == []
    scheme = Scheme.of(TREE, made.values())
    for name, level in made.items():
        for one in level.limits:
            for who in one.users:
                if who == WILDCARD:
                    continue
                bounds = [scheme.user_limits(who).get(node) for node in scheme.path(name)] if name else []
                for resource, amount in one.resources.items():
                    lowest = [each.resources[resource] for each in bounds if each and resource in each.resources]
                    assert min(lowest, default=amount) == amount
                counts = [each.applications for each in bounds if each and each.applications is not None]
                assert one.applications is None or min(counts, default=one.applications) == one.applications


@given(levels(), st.sampled_from([ROOT, "research", "vision", "shop"]), st.integers(0, 9).map(parse))
def test_the_rules_never_mind_a_lower_limit_below_or_a_higher_one_above(
    found: Levels, name: str, amount: Quantity
) -> None:
    """Whatever stands against a change stands against a worse one, too."""
    lower = {name: replace(found[name], limits=tuple(_at_most(one, amount) for one in found[name].limits))}
    above = {one.name for one in hierarchy._above(found, name)}
    against_above = [error for error in hierarchy.check(found, name) if "above it" in str(error)]
    still = [error for error in hierarchy.check({**found, **lower}, name) if "above it" in str(error)]
    assert len(still) <= len(against_above)
    raised = {
        one: replace(found[one], limits=tuple(_at_least(each, amount) for each in found[one].limits)) for one in above
    }
    still = [error for error in hierarchy.check({**found, **raised}, name) if "above it" in str(error)]
    assert len(still) <= len(against_above)


def _at_most(one: Limit, amount: Quantity) -> Limit:
    return replace(one, resources={name: min(amount, own) for name, own in one.resources.items()})


def _at_least(one: Limit, amount: Quantity) -> Limit:
    return replace(one, resources={name: max(amount, own) for name, own in one.resources.items()})


def stored(one: Limit) -> dict[str, Any]:
    said: dict[str, Any] = {"users": list(one.users), "groups": list(one.groups)}
    said["maxResources"] = {name: amount.to_json() for name, amount in one.resources.items()}
    return {**said, "maxApplications": one.applications} if one.applications is not None else said


@given(node_limits(), st.data())
def test_what_may_be_stored_is_read_as_it_is_and_nobody_is_listed_twice(
    limits: tuple[Limit, ...], data: st.DataObject
) -> None:
    spec = {"limits": [stored(one) for one in limits]}
    said = [str(error) for error in validation.validate(spec, {}, "spec.max")]
    assert all("must allow some" in one for one in said), said
    assert limit.read(spec) == tuple(replace(one, label="") for one in limits)
    if limits:
        again = data.draw(st.sampled_from(limits))
        assert validation.validate({"limits": [*spec["limits"], stored(again)]}, {}, "spec.max") != []


@given(levels(), workloads(), STEPS)
def test_applications_are_counted_where_resources_are(found: Levels, present: list[Workload], steps: Steps) -> None:
    """A workload that runs is one application of everybody who pays for it, however little it asks for."""
    world = world_of(found)
    for one, _ in run(world, present, steps):
        wanted = Application(PATHS[one.leaf], one.owner, Resources())
        exceeded = world.exceeded(f"{one.name}-more", wanted)
        left = Plain(world.config, world.applications).left(PATHS[one.leaf], one.owner)
        assert exceeded <= {APPLICATIONS}
        assert bool(exceeded) == (APPLICATIONS in left and left[APPLICATIONS] < parse(1))
