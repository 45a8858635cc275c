"""Elastic trees on the real federation: borrowed, given back by priority, and never more than was published."""

from fractions import Fraction
from typing import Any

import pytest

from federation_quota.stamp import CAPACITY_LABEL, HELD_LABEL
from localfed.federation import Federation
from tests.federation.ledgers import Recorder, check, given, name_of
from tests.federation.manifests import DIVIDED, DUPLICATED, deployment, policy
from tests.federation.stage import Stage, eventually
from tests.federation.teams import Teams, sharing

pytestmark = pytest.mark.federation

QUICK: dict[str, Any] = {"reclaim": {"delaySeconds": 1}}


@pytest.fixture(scope="module", autouse=True)
def classes(federation: Federation) -> None:
    """Priorities, in the members too: their pods name them."""
    values = {"high": 1000, "low": -1000}
    items = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in values.items()
    ]
    for context in (None, *federation.members):
        federation.api.apply(*items, context=context)


def assigned(stage: Stage, name: str) -> int:
    return sum(stage.clusters(name).values())


def labels(stage: Stage, name: str) -> dict[str, str]:
    found: dict[str, str] = (stage.binding(name) or {}).get("metadata", {}).get("labels") or {}
    return found


def is_held(stage: Stage, name: str) -> bool:
    return labels(stage, name).get(HELD_LABEL) == "true"


def never_lost(recorder: Recorder, stage: Stage, name: str) -> bool:
    """Whether at no version that was stored it had less than before."""
    key = f"{stage.namespace}/{name}-deployment"
    had = [given(item) for _, kind, item in recorder.history() if name_of(item) == key and kind != "DELETED"]
    return had == sorted(had)


def test_two_teams_borrow_give_back_and_shrink_together(federation: Federation, recorder: Recorder) -> None:
    with sharing(federation, {"a": "400m", "b": "600m"}, **QUICK) as teams:
        a, b = teams.stages["a"], teams.stages["b"]
        teams.share("one", "500m")
        teams.share("two", "500m")
        # A borrows what B leaves idle.
        a.apply(
            policy(DIVIDED),
            deployment("search", 2, priority_class="high"),
            deployment("train", 2),
            deployment("crawl", 4, priority_class="low"),
        )
        eventually(lambda: teams.used("a") == "800m", what="A borrows 400m")
        eventually(lambda: sum(a.in_members("crawl").values()) == 4, what="and it runs")
        assert teams.quota("a")["status"]["borrowing"] == "cpu: 400m"
        eventually(lambda: teams.running("a") == "800m", what="all of its pods run")
        status = teams.quota("a")["status"]
        assert {one["name"] for one in status["clusters"]} == {"m1", "m2"}
        listed = federation.kubectl("get", "eq,ceq", "-n", a.namespace)
        assert [word for word in ("USED", "RUNNING", "BORROWED", "LENT", "HELD") if word not in listed] == []
        assert "cpu: 800m/800m" in listed
        # Who was there first is in quota; of one second, whoever matters least, as nos has it.
        kinds = {"in-quota", "over-quota"}
        eventually(lambda: {labels(a, name).get(CAPACITY_LABEL) for name in ("search", "train", "crawl")} == kinds)
        # B comes, and A gives back: the least important.
        b.apply(policy(DIVIDED), deployment("api", 3, priority_class="high"), deployment("mail", 3))
        eventually(lambda: teams.used("b") == "600m", what="B has its own")
        assert teams.used("a") == "400m"
        assert is_held(a, "crawl")
        assert not a.clusters("crawl")
        assert (assigned(a, "search"), assigned(a, "train")) == (2, 2)
        eventually(lambda: not a.in_members("crawl"), what="and the members know it")
        eventually(lambda: a.has_event("crawl", "Displaced", "uses more cpu than it may"))
        # A member dies: mins shrink in proportion, and again the important stay.
        teams.share("two", "500m", is_ready=False)
        eventually(lambda: (teams.used("a"), teams.used("b")) == ("200m", "300m"), what="both have shrunk")
        assert (assigned(a, "search"), assigned(b, "api")) == (2, 3)
        assert is_held(a, "train")
        assert is_held(b, "mail")
        # In order, and never everything at once: what matters most has not been touched for a moment.
        assert never_lost(recorder, a, "search")
        assert never_lost(recorder, b, "api")
        tree = federation.api.get("quotatree", teams.tree)
        assert tree["status"]["absent"] == [f"{teams.tree}-two"]
        # It comes back, and so does everybody; what is borrowed comes when B has done its work.
        teams.share("two", "500m")
        eventually(lambda: (teams.used("a"), teams.used("b")) == ("400m", "600m"), what="both are back")
        b.delete("deployment", "mail")
        b.delete("deployment", "api")
        eventually(lambda: teams.used("a") == "800m", what="A borrows again")
        check(recorder.history(), teams.tree)


@pytest.mark.parametrize(("scheduling", "first", "then"), [(DIVIDED, 2, 7), (DUPLICATED, 2, 6)])
def test_a_leaf_gets_more_than_it_ever_had(
    federation: Federation, scheduling: dict[str, Any], first: int, then: int
) -> None:
    """What is asked for is in no binding: refused increases must count, else nothing would ever rise to meet them."""
    with sharing(federation, {"a": "100m"}) as teams:
        teams.share("one", "2")
        stage = teams.stages["a"]
        copies = 2 if scheduling is DUPLICATED else 1
        stage.apply(policy(scheduling), deployment("web", first))
        eventually(lambda: assigned(stage, "web") == first * copies, what="it is there, every copy")
        stage.kubectl("scale", "deployment", "web", f"--replicas={then}")
        eventually(lambda: assigned(stage, "web") == then * copies, what="it has grown")
        eventually(lambda: teams.used("a") == f"{then * copies * 100}m" or teams.used("a") == "1200m")


def test_an_important_one_displaces_a_lesser_one_of_its_own_team(federation: Federation) -> None:
    with sharing(federation, {"a": "400m", "b": "100m"}) as teams:
        teams.share("one", "500m")
        a, b = teams.stages["a"], teams.stages["b"]
        b.apply(policy(DIVIDED), deployment("theirs", 1, priority_class="low"))
        a.apply(policy(DIVIDED), deployment("first", 2), deployment("second", 2, priority_class="low"))
        eventually(lambda: teams.used("a") == "400m")
        a.apply(deployment("urgent", 2, priority_class="high"))
        eventually(lambda: assigned(a, "urgent") == 2, what="it has room")
        assert is_held(a, "second")
        assert (assigned(a, "first"), assigned(b, "theirs")) == (2, 1)
        a.delete("deployment", "first")
        eventually(lambda: assigned(a, "second") == 2, what="who gave way is back")


# Nothing beyond what was published


def test_at_no_version_more_is_admitted_than_was_published(federation: Federation, recorder: Recorder) -> None:
    with sharing(federation, {"a": "300m", "b": "300m"}, **QUICK) as teams:
        _unrest(teams)
        ledgers = check(recorder.history(), teams.tree).values()
    assert all(ledger.highest > Fraction(3, 10) for ledger in ledgers), "each has borrowed"
    assert all(ledger.versions > 20 for ledger in ledgers), "and much has happened"


def _unrest(teams: Teams) -> None:
    """Teams that come and go, scale up and down, and a cluster that does not stay what it is."""
    a, b = teams.stages["a"], teams.stages["b"]
    teams.share("one", "600m")
    a.apply(policy(DIVIDED), *(deployment(f"w{number}", 2) for number in range(4)))
    eventually(lambda: teams.used("a") == "600m", what="A has all")
    b.apply(policy(DUPLICATED), *(deployment(f"v{number}", 1) for number in range(3)))
    eventually(lambda: teams.used("b") in ("200m", "300m"), what="B has its own")
    teams.share("one", "1")
    a.kubectl("scale", "deployment", "w0", "--replicas=4")
    eventually(lambda: teams.used("b") in ("400m", "500m", "600m"), what="B borrows")
    teams.share("one", "400m")
    eventually(lambda: teams.used("a") in ("0", "200m"), what="there is less for A")
    teams.share("one", "1200m")
    for number in range(4):
        a.delete("deployment", f"w{number}")
    eventually(lambda: teams.used("b") == "600m", what="B has all that it wants")
