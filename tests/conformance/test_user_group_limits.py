"""YuniKorn's limits of users and groups: what is left, what is let through, and what is used, step by step.

Where YuniKorn keeps counters that a change of limits leaves behind, we work everything out anew from what runs: what is
expected there is worked out plainly (`limits_world.Plain`), and everywhere else that must agree with the vector, too.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

from federation_quota.ledger.level import APPLICATIONS
from tests.conformance.limits_world import Application, Plain, World, body, parsed, shown
from tests.conformance.overrides import Override
from tests.conformance.vectors import Case, case_ids, load_sections

VECTORS = load_sections("user_group_limits")["vectors"]


@pytest.mark.parametrize("case", VECTORS, ids=case_ids(VECTORS, "id"))
def test_limits(case: Case) -> None:
    world = World()
    is_ours = any(one.applies_to(case) for one in OURS)
    for step in case["steps"]:
        if step["op"] not in OPERATIONS:
            pytest.fail(f"no operation that is known here: {step['op']}")
        said, plainly = OPERATIONS[step["op"]](world, step)
        if said is SILENT:
            assert "expect" not in step, f"nothing is known to be expected of {step['op']}"
            continue
        assert plainly is SILENT or said == plainly, step
        if not is_ours:
            assert said == expected(step), step
    if not is_ours:
        assert world.used() == case["final_usage"]
    assert world.used() == Plain(world.config, world.applications).used()


def expected(step: Case) -> Any:  # noqa: ANN401 # whatever the step says
    said = step["expect"]
    if step["op"] == "trackers":
        return said
    ((_, value),) = said.items()
    if step["op"].startswith("rest_"):
        return [one for one in value if not A_TRACE.applies_to(one)]
    return value


def is_a_trace(body: Case) -> bool:
    """Whether it is about a user who has nothing, and got a wildcard's limit by being looked at."""

    def uses(queue: Case) -> bool:
        return "resourceUsage" in queue or any(uses(one) for one in queue.get("children") or ())

    return "userName" in body and not uses(body["queues"])


SILENT: Final = object()
Said = tuple[Any, Any]
"""What the product says, and what is plainly so; SILENT where nothing is asked, or it cannot be told plainly."""


def plain(world: World) -> Plain:
    return Plain(world.config, world.applications)


def update_config(world: World, step: Case) -> Said:
    world.configure(step["root"])
    return SILENT, SILENT


def try_increase(world: World, step: Case) -> Said:
    wanted = world.wanted(step)
    plainly = plainly_fits(world, step, wanted) and plainly_runs(world, step, wanted)
    is_allowed = not world.exceeded(step["app"], wanted)
    if is_allowed:
        world.store(step["app"], wanted)
    return is_allowed, plainly


def force_increase(world: World, step: Case) -> Said:
    world.store(step["app"], world.wanted(step))
    return SILENT, SILENT


def decrease(world: World, step: Case) -> Said:
    known = world.applications[step["app"]]
    wanted = Application(known.queue, known.owner, known.usage - parsed(step["usage"]))
    # Whatever else is used, less is never refused.
    assert not world.exceeded(step["app"], wanted)
    world.store(step["app"], None if step.get("remove_app") else wanted)
    return SILENT, SILENT


def can_run(world: World, step: Case) -> Said:
    wanted = world.wanted(step)
    return APPLICATIONS not in world.exceeded(step["app"], wanted), plainly_runs(world, step, wanted)


def fits(world: World, step: Case) -> Said:
    wanted = world.wanted(step)
    return not world.exceeded(step["app"], wanted) - {APPLICATIONS}, plainly_fits(world, step, wanted)


def headroom(world: World, step: Case) -> Said:
    wanted = world.wanted(step)
    left = plain(world).left(wanted.queue, wanted.owner)
    amounts = shown({name: amount for name, amount in left.items() if name != APPLICATIONS})
    return world.headroom(step["queue"], wanted.owner), amounts or None


def resolve_group(world: World, step: Case) -> Said:
    wanted = world.wanted({**step, "app": ""})
    return world.group(step["queue"], step["groups"]), plain(world).group(wanted.owner, wanted.queue)


def usage(world: World, step: Case) -> Said:
    return world.used(), plain(world).used()


def trackers(world: World, step: Case) -> Said:
    return world.trackers(), SILENT


def rest(kind: str) -> Callable[[World, Case], Said]:
    def ask(world: World, _step: Case) -> Said:
        plainly, told = plain(world), world.rest(kind)
        for one in told:
            assert kind == "users" or one["users"] == plainly.members(one["groupName"])
        return [body(one) for one in told], plainly.rest(kind)

    return ask


OPERATIONS: dict[str, Callable[[World, Case], Said]] = {
    "update_config": update_config,
    "try_increase": try_increase,
    "force_increase": force_increase,
    "decrease": decrease,
    "can_run": can_run,
    "fits": fits,
    "headroom": headroom,
    "resolve_group": resolve_group,
    "usage": usage,
    "trackers": trackers,
    "rest_users": rest("users"),
    "rest_groups": rest("groups"),
}


def plainly_fits(world: World, step: Case, wanted: Application) -> bool:
    left = plain(world).left(wanted.queue, wanted.owner)
    asked = parsed(step.get("usage") or {})
    return all(amount <= left[name] for name, amount in asked.items() if name in left)


def plainly_runs(world: World, step: Case, wanted: Application) -> bool:
    left = plain(world).left(wanted.queue, wanted.owner)
    is_running = step["app"] in world.applications
    return is_running or APPLICATIONS not in left or left[APPLICATIONS].nano >= 10**9


def regroups(case: Case) -> bool:
    """Whether a change of limits makes something that runs count for another group than before."""
    world = World()
    for step in case["steps"]:
        before = groups_of(world)
        if step["op"] in ("update_config", "force_increase", "try_increase", "decrease"):
            OPERATIONS[step["op"]](world, step)
        if step["op"] == "update_config" and before != groups_of(world):
            return True
    return False


def groups_of(world: World) -> dict[str, str]:
    return {name: plain(world).group(one.owner, one.queue) for name, one in world.applications.items()}


def has_wild_group(case: Case) -> bool:
    def listed(queue: Case) -> bool:
        own = any("*" in (one.get("groups") or ()) for one in queue.get("limits") or ())
        return own or any(listed(one) for one in queue.get("queues") or ())

    return any(listed(step["root"]) for step in case["steps"] if step["op"] == "update_config")


DIVERGENCE = Override(
    reason="YuniKorn's own defect, marked as such: the vector says what is right in words. Expected instead: "
    "everything as it follows from what runs and from the limits as they are now.",
    applies_to=lambda case: "divergence" in case,
)
REGROUPED = Override(
    reason="YuniKorn resolves an application's group once, and drops what it had used when that group's limit goes. "
    "Here a change of limits counts for what runs already. Expected instead: its whole use counts for its group as of "
    "now.",
    applies_to=regroups,
)
NO_GROUPS = Override(
    reason="In YuniKorn who is in no group escapes the pool of all groups that are not named. Here nobody does. "
    "Expected instead: they count for the pool.",
    applies_to=lambda case: has_wild_group(case) and any(step.get("groups") == [] for step in case["steps"]),
)
A_TRACE = Override(
    reason="In YuniKorn a user who was refused, or only looked at, is listed from then on. Here a look changes "
    "nothing. Expected instead: those who use nothing and whom no limit names are not listed.",
    applies_to=is_a_trace,
)
OURS = (DIVERGENCE, REGROUPED, NO_GROUPS)


def test_what_is_wrong_in_a_vector_is_noticed() -> None:
    """Every figure that a step expects can fail it."""
    noticed = 0
    for case in VECTORS:
        if any(one.applies_to(case) for one in OURS):
            continue
        for index, step in enumerate(case["steps"]):
            if "expect" not in step:
                continue
            steps = [*case["steps"][:index], {**step, "expect": wrong(step["expect"])}]
            with pytest.raises(AssertionError):
                test_limits({**case, "steps": steps})
            noticed += 1
        with pytest.raises(AssertionError):
            test_limits({**case, "final_usage": {"users": {"nobody": {}}, "groups": {}}})
    assert noticed


def test_less_is_not_refused_while_there_is_more_than_the_limits_allow() -> None:
    """No vector takes away some of what is too much, and leaves the rest: this one does."""
    limited = {"name": "root", "limits": [{"users": ["*"], "groups": ["dev"], "maxresources": {"vcore": "1"}}]}
    one = {"queue": "root.leaf", "app": "a1", "user": "ann", "groups": ["dev"]}
    steps = [
        {"op": "update_config", "root": limited},
        {"op": "force_increase", **one, "usage": {"vcore": "5"}},
        {"op": "decrease", **one, "usage": {"vcore": "2"}},
        {"op": "try_increase", **one, "usage": {"vcore": "1"}, "expect": {"allowed": False}},
    ]
    left = {path: {"usage": {"vcore": 3000}, "apps": ["a1"]} for path in ("root", "root.leaf")}
    test_limits({"steps": steps, "final_usage": {"users": {"ann": left}, "groups": {"dev": left}}})


def wrong(said: Case) -> Case:
    return {key: (not value if isinstance(value, bool) else {"astrology": 1}) for key, value in said.items()}


@pytest.mark.parametrize("case", [{"steps": [{"op": "divine"}], "final_usage": {}}], ids=["an unknown operation"])
def test_what_nobody_knows_fails(case: Case) -> None:
    with pytest.raises(pytest.fail.Exception):
        test_limits(case)
