"""Limits of users and groups on the real federation: people with certificates of their own, as they meet them.

What must never be is looked for in every stored version, by a checker that works everything out itself.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faults.allowances import GROUPS, ROOT, USERS, Allowances, Subject, check
from federation_quota.stamp import HELD_LABEL
from localfed.api import RefusedError
from localfed.federation import Federation
from localfed.guard import Guard
from tests.federation.ledgers import Recorder
from tests.federation.manifests import DIVIDED, deployment, policy
from tests.federation.people import Person, tenant
from tests.federation.stage import Stage, eventually
from tests.federation.teams import Teams, sharing
from tests.federation.usage import telling

pytestmark = pytest.mark.federation

Limit = dict[str, Any]


class Lab:
    """A department of two teams, the people in them, and what they do."""

    def __init__(self, teams: Teams) -> None:
        self.teams = teams
        self.vision, self.speech = teams.stages["vision"], teams.stages["speech"]
        self._people: dict[tuple[str, str], Person] = {}

    def person(self, stage: Stage, name: str, *groups: str) -> Person:
        """Somebody with a role in a namespace, always in the same groups."""
        key = name, stage.namespace
        if key not in self._people:
            self._people[key] = tenant(stage, name, *groups)
        return self._people[key]

    def limit(self, team: str, *limits: Limit) -> None:
        """These are the limits of a team, or of the department; without a name, of the tree."""
        kind, name, place = "quotatree", self.teams.tree, None
        if team in self.teams.stages:
            kind, name, place = "elasticquota", team, self.teams.stages[team].namespace
        elif team:
            kind, name = "compositeelasticquota", f"{self.teams.tree}-{team}"
        change = {"spec": {"limits": list(limits)}}
        self.teams.federation.api.patch(kind, name, change=change, namespace=place)

    def node(self, team: str) -> str:
        """What a team is called in the tree."""
        return f"{self.teams.stages[team].namespace}/{team}"

    def accounts(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The status of every account of this tree, by whose it is."""
        items = self.teams.federation.api.list("usageaccounts")
        return {
            (one["spec"]["kind"], one["spec"]["name"]): one.get("status") or {}
            for one in items
            if one["spec"]["tree"] == self.teams.tree
        }

    def used(self, kind: str, name: str) -> dict[str, Any]:
        """What an account says of each node: cpu and applications, each of its limit."""
        found = self.accounts().get((kind, name), {})
        return {
            one["node"]: (
                *(one[key].get("cpu") for key in ("used", "maxResources")),
                *(one.get(key) for key in ("applications", "maxApplications")),
            )
            for one in found.get("nodes") or []
        }


@pytest.fixture
def lab(federation: Federation) -> Iterator[Lab]:
    above = {"vision": "research", "speech": "research"}
    with sharing(federation, {"research": "16", "vision": "8", "speech": "8"}, above, total={"cpu": "16"}) as teams:
        for stage in teams.stages.values():
            stage.apply(policy(DIVIDED))
        yield Lab(teams)


def has(stage: Stage, name: str) -> int:
    return sum(stage.clusters(name).values())


def runs(stage: Stage, name: str, replicas: int) -> None:
    eventually(lambda: has(stage, name) == replicas, what=f"{name} has {replicas}")


def waits(stage: Stage, name: str) -> None:
    """It was accepted, and is kept back."""

    def is_held() -> bool:
        binding = stage.binding(name)
        return binding is not None and (binding["metadata"].get("labels") or {}).get(HELD_LABEL) == "true"

    eventually(is_held, what=f"{name} waits")
    assert has(stage, name) == 0


def never_exceeded(recorder: Recorder, lab: Lab) -> Allowances:
    found = check(recorder.history(), lab.teams.tree)
    assert found.breaches == []
    return found


def test_each_user_has_their_own_from_the_leaf_to_the_root(lab: Lab, recorder: Recorder) -> None:
    lab.limit(
        "",
        {"limit": "ann", "users": ["ann"], "maxResources": {"cpu": 3}},
        {"limit": "everybody", "users": ["*"], "maxResources": {"cpu": 4}, "maxApplications": 2},
    )
    lab.limit("vision", {"users": ["ann"], "maxResources": {"cpu": 2}})
    vision, speech = lab.vision, lab.speech
    lab.person(vision, "ann", "dev").apply(deployment("web", 2, "1"))
    runs(vision, "web", 2)
    lab.person(vision, "ann", "dev").apply(deployment("more", 1, "1"))  # no more on the leaf
    lab.person(speech, "ann", "dev").apply(deployment("api", 1, "1"))
    runs(speech, "api", 1)
    lab.person(speech, "ann", "dev").apply(deployment("next", 1, "1"))  # no more on the tree
    lab.person(vision, "bob", "dev").apply(deployment("site", 3, "1"))  # the wildcard's is his alone
    lab.person(speech, "bob", "dev").apply(deployment("shop", 1, "500m"))
    runs(vision, "site", 3)
    runs(speech, "shop", 1)
    lab.person(speech, "bob", "dev").apply(deployment("third", 1, "100m"))  # one application too many
    for stage, name in ((vision, "more"), (speech, "next"), (speech, "third")):
        waits(stage, name)
    eventually(
        lambda: (
            (lab.used("User", "ann"), lab.used("User", "bob"))
            == (
                {ROOT: ("3", "3", None, None), lab.node("vision"): ("2", "2", None, None)},
                {ROOT: ("3500m", "4", 2, 2)},
            )
        ),
        what="the accounts say so",
    )
    for stage, name, who in ((vision, "more", "ann"), (speech, "next", "ann"), (speech, "third", "bob")):
        told = partial(stage.has_event, name, "Held", f"limit of user {who} in tree {lab.teams.tree}")
        eventually(told, what=f"{who} is told why {name} waits")
    # What is freed goes to who waits for it, on both levels.
    lab.person(vision, "ann", "dev")("delete", "deployment", "web")
    runs(vision, "more", 1)
    runs(speech, "next", 1)
    lab.person(vision, "bob", "dev")("delete", "deployment", "site")
    runs(speech, "third", 1)
    found = never_exceeded(recorder, lab)
    for subject in (
        Subject(USERS, "ann", ROOT),
        Subject(USERS, "ann", lab.node("vision")),
        Subject(USERS, "bob", ROOT),
    ):
        assert found.reached[subject], subject


def test_groups_have_theirs_together_and_a_workload_counts_for_one(lab: Lab, recorder: Recorder) -> None:
    lab.limit(
        "",
        {"groups": ["dev"], "maxResources": {"cpu": 3}},
        {"groups": ["*"], "maxResources": {"cpu": 1}},
    )
    lab.limit("vision", {"groups": ["ops"], "maxApplications": 1})
    vision, speech = lab.vision, lab.speech
    ann, bob = ("ann", "dev", "ops"), ("bob", "dev")
    lab.person(vision, *ann).apply(deployment("tool", 2, "1"))  # counts for ops, and for dev no more
    runs(vision, "tool", 2)
    lab.person(speech, *ann).apply(deployment("api", 2, "1"))  # nobody lists ops on the way up from here
    lab.person(speech, *bob).apply(deployment("shop", 1, "1"))
    runs(speech, "api", 2)
    runs(speech, "shop", 1)
    lab.person(vision, *ann).apply(deployment("tool-two", 1, "1"))
    lab.person(vision, *bob).apply(deployment("site", 1, "1"))  # his own is little; it is theirs together that is full
    lab.person(speech, "cy", "qa").apply(deployment("test", 1, "1"))
    runs(speech, "test", 1)
    lab.person(vision, "dan").apply(deployment("guest", 1, "100m"))  # in no group at all, and in that pool all the same
    for name in ("tool-two", "site", "guest"):
        waits(vision, name)
    eventually(
        lambda: (
            [lab.used("Group", name).get(ROOT) for name in ("dev", "*")]
            == [("3", "3", None, None), ("1", "1", None, None)]
        ),
        what="the accounts say so",
    )
    assert lab.used("Group", "ops") == {lab.node("vision"): (None, None, 1, 1)}
    lab.person(speech, *ann)("delete", "deployment", "api")
    runs(vision, "site", 1)
    lab.person(speech, "cy", "qa")("delete", "deployment", "test")
    runs(vision, "guest", 1)
    lab.person(vision, *ann)("delete", "deployment", "tool")
    runs(vision, "tool-two", 1)
    found = never_exceeded(recorder, lab)
    for subject in (
        Subject(GROUPS, "dev", ROOT),
        Subject(GROUPS, "*", ROOT),
        Subject(GROUPS, "ops", lab.node("vision")),
    ):
        assert found.reached[subject], subject


def test_limits_change_while_things_run(lab: Lab, recorder: Recorder) -> None:
    def cpu(amount: str) -> Limit:
        return {"users": ["ann"], "maxResources": {"cpu": amount}}

    vision = lab.vision
    ann = lab.person(vision, "ann", "dev")
    ann.apply(deployment("web", 2, "1"))
    runs(vision, "web", 2)
    assert lab.accounts() == {}, "nobody is limited, and nobody has an account"
    # A limit that comes counts what runs.
    lab.limit("", cpu("3"))
    eventually(lambda: lab.used("User", "ann") == {ROOT: ("2", "3", None, None)}, what="what ran before counts")
    ann("scale", "deployment", "web", "--replicas=4")
    eventually(lambda: lab.accounts()["User", "ann"].get("waiting"), what="it was refused, and waits")
    ann.apply(deployment("tiny", 1, "100m"))
    runs(vision, "tiny", 1)
    assert has(vision, "web") == 2
    # One that falls takes nothing away, and gives no more.
    lab.limit("", cpu("1"))
    eventually(lambda: lab.used("User", "ann") == {ROOT: ("2100m", "1", None, None)}, what="the new limit is in force")
    assert lab.accounts()["User", "ann"]["exceeded"] == f"cpu on tree {lab.teams.tree}"
    ann.apply(deployment("late", 1, "100m"))
    lab.person(vision, "bob", "dev").apply(deployment("site", 1, "100m"))
    runs(vision, "site", 1)
    waits(vision, "late")
    assert (has(vision, "web"), has(vision, "tiny")) == (2, 1)
    # A change that does not fit is refused as a whole, and says where.
    with pytest.raises(RefusedError) as refused:
        lab.limit("vision", cpu("1"), {"users": ["bob"], "maxApplications": 5}, cpu("2"))
    assert "spec.limits[2].users[0]" in str(refused.value)
    assert (lab.teams.quota("vision")["spec"].get("limits") or []) == []
    with pytest.raises(RefusedError) as refused:
        lab.limit("vision", cpu("2"))
    assert "spec.limits[0].maxResources[cpu]" in str(refused.value)
    assert "user ann may have no more than user ann on the tree, above it: 1" in str(refused.value)
    # One that rises wakes what waits for it, and what is still too much goes on waiting.
    lab.limit("", cpu("3"))
    runs(vision, "late", 1)
    assert has(vision, "web") == 2
    lab.limit("", cpu("4200m"))
    runs(vision, "web", 4)
    eventually(lambda: lab.used("User", "ann") == {ROOT: ("4200m", "4200m", None, None)})
    # One that goes leaves nothing behind.
    ann("scale", "deployment", "web", "--replicas=6")
    eventually(lambda: lab.accounts()["User", "ann"].get("waiting"), what="it was refused, and waits")
    lab.limit("")
    runs(vision, "web", 6)
    eventually(lambda: lab.accounts() == {}, what="the accounts are gone")
    assert never_exceeded(recorder, lab).reached[Subject(USERS, "ann", ROOT)]


def test_what_is_told_is_what_is_stored(
    lab: Lab, recorder: Recorder, stage: Stage, guard: Guard, tmp_path: Path
) -> None:
    lab.limit(
        "",
        {"users": ["ann"], "groups": ["dev"], "maxResources": {"cpu": 3}},
        {"users": ["*"], "maxApplications": 2},
        {"groups": ["*"], "maxResources": {"cpu": 1}},
    )
    lab.limit("speech", {"users": ["*"], "maxApplications": 1}, {"groups": ["ops"], "maxApplications": 4})
    vision, speech = lab.vision, lab.speech
    for place, who, name, cpu in (
        (vision, ("ann", "dev"), "web", "1"),
        (speech, ("ann", "dev"), "api", "500m"),
        (vision, ("bob", "dev", "ops"), "site", "250m"),
        (speech, ("bob", "dev", "ops"), "shop", "750m"),
        (vision, ("cy",), "test", "1"),
    ):
        lab.person(place, *who).apply(deployment(name, 1, cpu))
        runs(place, name, 1)
    lab.person(speech, "ann", "dev").apply(deployment("extra", 1, "100m"))
    waits(speech, "extra")
    lab.person(vision, "cy").apply(deployment("extra", 1, "100m"))
    waits(vision, "extra")
    known = never_exceeded(recorder, lab)
    with telling(stage, lab.teams.tree, guard, tmp_path / "log") as ask:
        for kind, path, key in ((USERS, "users", "userName"), (GROUPS, "groups", "groupName")):
            told = {one[key]: one for one in json.loads(ask(path, ask.tokens.reader)[1])}
            assert told.keys() == {one.name for one in known.used if one.kind == kind}
            for name, document in told.items():
                assert dict(_queues(document["queues"])) == _expected(known, kind, name)
    # The accounts say the same, where something is limited.
    for (kind, name), status in lab.accounts().items():
        for node in status["nodes"]:
            subject = Subject(USERS if kind == "User" else GROUPS, name, node["node"])
            eventually(partial(_agrees, lab, known, subject), what=f"the account of {name} is true")


def _queues(queue: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Of each queue what is used, what runs, and the limits."""
    usage, most = queue["resourceUsage"], queue["maxResources"]
    said = usage.get("vcore", 0), usage.get("pods", 0), most.get("vcore"), queue["maxApplications"]
    yield queue["queuename"].rpartition(".")[2], (*said, queue["runningApplications"])
    for child in queue["children"]:
        yield from _queues(child)


def _expected(known: Allowances, kind: str, name: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for subject, amounts in known.used.items():
        if (subject.kind, subject.name) != (kind, name):
            continue
        running = [one for one, held in known.held.items() if held.amounts["pods"] and subject in known.subjects(held)]
        if not running and subject.node != ROOT:
            continue
        most = known.most(subject)
        cpu = int(most["cpu"] * 1000) if "cpu" in most else None
        said = int(amounts["cpu"] * 1000), int(amounts["pods"]), cpu, int(most.get("applications", 0))
        found[subject.node or "root"] = (*said, sorted(running))
    return found


def _agrees(lab: Lab, known: Allowances, subject: Subject) -> bool:
    used, most = known.used[subject], known.most(subject)
    said = lab.used("User" if subject.kind == USERS else "Group", subject.name).get(subject.node)
    cpu = (Stage.used_text(used["cpu"]), Stage.used_text(most["cpu"])) if "cpu" in most else (None, None)
    apps = (int(used["applications"]), int(most["applications"])) if "applications" in most else (None, None)
    return said == (*cpu, *apps)
