"""The forms that trees take, on the real federation: shared by giving way, in levels, several of them, for the system,
for whoever has no quota, and for tenants who make namespaces as they like. At every version nothing is over-committed.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from federation_quota.stamp import HELD_LABEL, STAMP_ANNOTATION
from localfed.federation import Federation
from tests.federation.ledgers import Recorder, check
from tests.federation.manifests import DIVIDED, deployment, policy
from tests.federation.stage import Stage, eventually
from tests.federation.teams import GROUP, Teams, sharing

pytestmark = pytest.mark.federation

QUICK: dict[str, Any] = {"reclaim": {"delaySeconds": 1}}


def workloads(stage: Stage, count: int, first: int = 0, cpu: str = "100m") -> None:
    """So many Deployments of one replica."""
    stage.apply(policy(DIVIDED), *(deployment(f"w{number}", 1, cpu) for number in range(first, first + count)))


def used(teams: Teams, *names: str) -> tuple[str, ...]:
    return tuple(teams.used(name) for name in names)


def tree_status(federation: Federation, tree: str) -> dict[str, Any]:
    found: dict[str, Any] = federation.api.get("quotatree", tree).get("status") or {}
    return found


def leaf_of(stage: Stage, name: str) -> str:
    found = stage.binding(name) or {"metadata": {}}
    return str(json.loads((found["metadata"].get("annotations") or {}).get(STAMP_ANNOTATION, "{}")).get("leaf", ""))


def held(stage: Stage) -> int:
    return len(stage.names("resourcebindings", labels=f"{HELD_LABEL}=true"))


def test_in_a_fair_tree_who_borrowed_too_much_gives_way(federation: Federation, recorder: Recorder) -> None:
    """The example of nos: mins of 40, 10 and 30; A has a right to half of what C leaves idle, B to an eighth."""
    with sharing(federation, {"a": "400m", "b": "100m", "c": "300m"}, mode="FairShare") as teams:
        a, b, c = (teams.stages[name] for name in "abc")
        teams.share("one", "800m")
        workloads(a, 4)
        eventually(lambda: teams.used("a") == "400m", what="A has its own")
        workloads(b, 4)
        eventually(lambda: teams.used("b") == "400m", what="B has borrowed all that C leaves idle")
        eventually(lambda: teams.quota("a")["status"]["guaranteed"]["cpu"] == "550m", what="A has a right to 150m more")
        eventually(lambda: teams.quota("b")["status"]["guaranteed"]["cpu"] == "137m", what="its share is told")
        workloads(a, 1, first=4)
        eventually(lambda: used(teams, "a", "b") == ("500m", "300m"), what="one of B's gives way to A")
        assert held(b) == 1
        workloads(c, 3)
        eventually(lambda: used(teams, "a", "b", "c") == ("400m", "100m", "300m"), what="C claims what it was promised")
        check(recorder.history(), teams.tree)


def test_departments_share_among_themselves_before_they_borrow(federation: Federation, recorder: Recorder) -> None:
    mins = {"division": "600m", "dept": "400m", "x": "200m", "y": "200m", "s": "200m", "other": "400m"}
    parents = {"dept": "division", "s": "division", "x": "dept", "y": "dept"}
    with sharing(federation, mins, parents, **QUICK) as teams:
        teams.share("one", "1")
        workloads(teams.stages["x"], 5, cpu="200m")
        eventually(lambda: teams.used("x") == "1", what="one team has all")
        workloads(teams.stages["other"], 2, cpu="200m")
        eventually(lambda: used(teams, "x", "other") == ("600m", "400m"), what="the division gives back, and no more")
        workloads(teams.stages["y"], 1, cpu="200m")
        eventually(lambda: used(teams, "x", "y") == ("400m", "200m"), what="its sister has its own")
        workloads(teams.stages["s"], 1, cpu="200m")
        eventually(
            lambda: used(teams, "x", "y", "s") == ("200m", "200m", "200m"), what="and so has the one beside them"
        )
        assert teams.used("other") == "400m"
        eventually(lambda: used(teams, "dept", "division") == ("400m", "600m"), what="parents add up")
        eventually(lambda: teams.running("division") == "600m", what="and so does what runs")
        assert teams.quota("dept")["status"]["held"] == 4
        check(recorder.history(), teams.tree)


def test_what_one_tree_leaves_idle_is_not_anothers(federation: Federation, recorder: Recorder) -> None:
    with sharing(federation, {"a": "100m"}, **QUICK) as small, sharing(federation, {"a": "100m"}, **QUICK) as large:
        small.share("one", "300m")
        large.share("one", "2")
        workloads(small.stages["a"], 5)
        eventually(lambda: small.used("a") == "300m", what="it has what its own clusters have")
        eventually(lambda: held(small.stages["a"]) == 2)
        assert tree_status(federation, large.tree)["total"]["cpu"] == "2"
        assert tree_status(federation, small.tree)["clusters"] == [f"{small.tree}-one"]
        small.share("two", "100m")
        eventually(lambda: small.used("a") == "400m", what="a cluster that joins it adds to it")
        check(recorder.history(), small.tree)


def test_what_the_system_uses_is_taken_off_and_never_held(federation: Federation, recorder: Recorder) -> None:
    with sharing(federation, {"a": "400m"}, **QUICK) as teams:
        system = teams.namespace("system", part="system", tree=teams.tree)
        selector = {"matchLabels": {"part": "system", "tree": teams.tree}}
        change = {"spec": {"systemGroup": {"namespaceSelector": selector}}}
        federation.api.patch("quotatree", teams.tree, change=change)
        teams.share("one", "1")
        workloads(teams.stages["a"], 5, cpu="200m")
        eventually(lambda: teams.used("a") == "1", what="the team has all")
        system.apply(policy(DIVIDED), deployment("dns", 2))
        eventually(lambda: sum(system.clusters("dns").values()) == 2, what="the system waits for nobody")
        assert leaf_of(system, "dns") == ""
        eventually(lambda: teams.used("a") == "800m", what="the team has what is left")
        status = tree_status(federation, teams.tree)
        assert (status["systemUsed"]["cpu"], status["total"]["cpu"]) == ("200m", "800m")
        system.delete("deployment", "dns")
        eventually(lambda: teams.used("a") == "1", what="and all again")
        check(recorder.history(), teams.tree, has_clusters=False)


def test_a_tenant_makes_namespaces_as_it_likes(federation: Federation, recorder: Recorder) -> None:
    with sharing(federation, {}, **QUICK) as teams:
        teams.share("one", "400m")
        teams.composite("tenant", min={"cpu": "300m"}, namespaceSelector={"matchLabels": {"tenant": teams.tree}})
        first, second = (teams.namespace(name, tenant=teams.tree) for name in ("first", "second"))
        workloads(first, 2)
        workloads(second, 2)
        eventually(lambda: teams.used("tenant") == "400m", what="both are charged to the one quota")
        third = teams.namespace("third", tenant=teams.tree)
        workloads(third, 1)
        eventually(lambda: held(third) == 1, what="and so is one that was made later")
        assert leaf_of(third, "w0") == f"{teams.tree}-tenant"
        first.delete("deployment", "w0")
        eventually(lambda: sum(third.clusters("w0").values()) == 1, what="what one frees another has")
        check(recorder.history(), teams.tree)


@contextmanager
def default_group(federation: Federation, name: str) -> Iterator[None]:
    """The default tree has 300m, and a group for whoever has no quota."""
    group = {"apiVersion": GROUP, "kind": "CompositeElasticQuota", "metadata": {"name": name}}
    tree = {"apiVersion": GROUP, "kind": "QuotaTree", "metadata": {"name": "default"}}
    spec = {"total": {"cpu": "300m"}, "defaultGroup": name}
    federation.api.apply({**group, "spec": {"min": {"cpu": "100m"}}}, {**tree, "spec": spec})
    try:
        yield
    finally:
        eventually(lambda: not _status(federation, name).get("held"), what="nobody waits in it")
        eventually(lambda: _status(federation, name).get("used", {}).get("cpu") == "0", what="nobody is in it")
        federation.kubectl("delete", "quotatree", "default")
        federation.kubectl("delete", "compositeelasticquota", name)


def _status(federation: Federation, group: str) -> dict[str, Any]:
    found: dict[str, Any] = federation.api.get("compositeelasticquota", group).get("status") or {}
    return found


@pytest.mark.alone
def test_whoever_has_no_quota_is_in_the_default_group(federation: Federation, stage: Stage) -> None:
    group = f"{stage.namespace}-rest"
    with default_group(federation, group):
        eventually(lambda: _status(federation, group).get("shape"), what="every replica has joined it")
        try:
            stage.apply(policy(DIVIDED), deployment("web", 2))
            eventually(lambda: sum(stage.clusters("web").values()) == 2, what="it runs")
            assert leaf_of(stage, "web") == group
            eventually(lambda: _status(federation, group)["used"]["cpu"] == "200m")
            stage.apply(deployment("reports", 2))
            eventually(lambda: held(stage) == 1, what="what does not fit waits")
            stage.delete("deployment", "web")
            eventually(lambda: sum(stage.clusters("reports").values()) == 2, what="until there is room")
        finally:
            stage.kubectl("delete", "deployments", "--all")
