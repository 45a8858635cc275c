"""The accounts of users and groups on the real federation: true beside limits that come, change and go, and what waits
for one is neither tried in vain nor forgotten."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from localfed.federation import Federation
from localfed.guard import Guard
from tests.federation.manifests import DIVIDED, deployment, policy
from tests.federation.people import tenant
from tests.federation.stage import Stage, eventually
from tests.federation.teams import Teams, sharing
from tests.federation.test_monitoring import CONTROLLERS, answer, read
from tests.federation.usage import telling

pytestmark = pytest.mark.federation


@pytest.fixture
def teams(federation: Federation) -> Iterator[Teams]:
    with sharing(federation, {"lab": "8", "shop": "8"}, total={"cpu": "16"}) as found:
        for place in found.stages.values():
            place.apply(policy(DIVIDED))
        yield found
        said = [line for one in CONTROLLERS for line in federation.log(one).read_text().splitlines()]
        assert [line for line in said if "audit.unreserved" in line and found.tree in line] == []


def limit(teams: Teams, *limits: dict[str, Any]) -> None:
    """These are the limits of the whole tree now."""
    teams.federation.api.patch("quotatree", teams.tree, change={"spec": {"limits": list(limits)}})


def accounts(teams: Teams) -> dict[str, dict[str, Any]]:
    """The accounts of the tree, by whose they are."""
    items = teams.federation.api.list("usageaccounts")
    return {one["spec"]["name"]: one for one in items if one["spec"]["tree"] == teams.tree}


def summaries(teams: Teams) -> dict[str, str]:
    return {name: (one.get("status") or {}).get("summary", "") for name, one in accounts(teams).items()}


def told(teams: Teams, text: str, metric: str) -> dict[str, float]:
    """What an exposition says of the people of the tree, by name."""
    samples = (one for family in text_string_to_metric_families(text) for one in family.samples)
    about = (one for one in samples if one.name == f"federation_quota_{metric}" and one.labels["tree"] == teams.tree)
    return {one.labels["name"]: one.value for one in about}


def runs(stage: Stage, name: str, replicas: int, what: str) -> None:
    eventually(lambda: sum(stage.clusters(name).values()) == replicas, what=what)


def ann(**resources: str) -> dict[str, Any]:
    return {"users": ["ann"], "maxResources": resources}


def test_limits_count_what_runs_apply_at_once_when_they_change_and_leave_nothing_behind(teams: Teams) -> None:
    lab, shop = teams.stages["lab"], teams.stages["shop"]
    tenant(lab, "ann", "dev").apply(deployment("web", 2, "500m"))
    bob = tenant(shop, "bob", "dev")
    bob.apply(deployment("api", 1, "500m"))
    runs(lab, "web", 2, "ann's runs")
    runs(shop, "api", 1, "bob's runs")
    assert accounts(teams) == {}, "nobody is limited"

    limit(teams, ann(cpu="3"), {"users": ["*"], "maxApplications": 4}, {"groups": ["dev"], "maxResources": {"cpu": 9}})
    tree = f"tree {teams.tree}"
    expected = {"ann": f"{tree}: cpu 1/3", "bob": f"{tree}: applications 1/4", "dev": f"{tree}: cpu 1500m/9"}
    eventually(lambda: summaries(teams) == expected, what="whoever runs something has an account that says so")
    shown = teams.federation.kubectl("get", "usageaccounts").splitlines()
    assert shown[0].split() == ["NAME", "TREE", "KIND", "WHO", "USED", "EXCEEDED", "AGE"]
    (line,) = (one for one in shown if teams.tree in one and " ann " in one)
    assert " User " in line
    assert f"{tree}: cpu 1/3" in line

    limit(teams, ann(cpu="500m"), {"groups": ["dev"], "maxResources": {"cpu": 9}})
    expected = {"ann": f"{tree}: cpu 1/500m", "dev": f"{tree}: cpu 1500m/9"}
    eventually(lambda: summaries(teams) == expected, what="a change is true of what runs, and bob is limited no more")
    assert accounts(teams)["ann"]["status"]["exceeded"] == f"cpu on {tree}"
    runs(lab, "web", 2, "what runs is not stopped")
    bob("delete", "deployment", "api")
    expected["dev"] = f"{tree}: cpu 1/9"
    eventually(lambda: summaries(teams) == expected, what="what is deleted is not used")

    limit(teams)
    eventually(lambda: accounts(teams) == {}, what="nothing is left of limits that are gone")


@pytest.mark.alone
def test_prometheus_is_told_of_people_for_a_token_alone(
    teams: Teams, stage: Stage, guard: Guard, tmp_path: Path
) -> None:
    """By the leader, so those that ask for no token leave the lead to one that does."""
    lab = teams.stages["lab"]
    tenant(lab, "ann", "dev").apply(deployment("web", 3, "500m"))
    runs(lab, "web", 3, "ann's runs")
    limit(teams, ann(cpu="3"), {"groups": ["dev"], "maxResources": {"cpu": "9"}})
    tree = f"tree {teams.tree}"
    expected = {"ann": f"{tree}: cpu 1500m/3", "dev": f"{tree}: cpu 1500m/9"}
    eventually(lambda: summaries(teams) == expected, what="both have accounts")

    for name in CONTROLLERS:
        status, text = read(teams.federation, name, "/metrics")
        assert (status, "federation_quota_usage" in text) == (200, False)

    with telling(stage, teams.tree, guard, tmp_path / "log") as ask:

        def says(metric: str) -> dict[str, float]:
            headers = {"Authorization": f"Bearer {ask.tokens.reader}"}
            request = urllib.request.Request(f"{ask.root}/metrics", headers=headers)  # noqa: S310 - loopback
            status, text = answer(request, ask.trusted)
            assert status == 200
            return told(teams, text, metric)

        try:
            for name in CONTROLLERS:
                teams.federation.terminate(name)
            eventually(lambda: says("usage_used") == {"ann": 1.5, "dev": 1.5}, what="Prometheus is told")
            assert says("usage_limit") == {"ann": 3.0, "dev": 9.0}
        finally:
            for name in CONTROLLERS:
                teams.federation.start(name, guard)


def test_what_a_limit_would_refuse_is_held_without_being_tried_and_goes_when_there_is_room(teams: Teams) -> None:
    lab, shop = teams.stages["lab"], teams.stages["shop"]
    limit(teams, ann(cpu="2"))
    anns, also, bobs = tenant(lab, "ann"), tenant(shop, "ann"), tenant(shop, "bob")
    anns.apply(deployment("web", 3, "500m"))
    runs(lab, "web", 3, "there is room for the first")
    also.apply(deployment("large", 2, "500m"))
    reason = f"limit of user ann in tree {teams.tree}, in the whole tree: requested: cpu=1, used: cpu=1500m"
    eventually(lambda: shop.has_event("large", "Held", reason), what="she is told what it waits for")
    also.apply(deployment("small", 1, "500m"))
    bobs.apply(deployment("other", 4, "500m"))
    runs(shop, "small", 1, "what fits goes past it")
    runs(shop, "other", 4, "and so does what others have")
    assert not shop.clusters("large")
    eventually(lambda: summaries(teams)["ann"] == f"tree {teams.tree}: cpu 2/2", what="she is at her limit")
    assert not shop.has_event("large", "Released", ""), "it was never let go to be refused"

    also("delete", "deployment", "small")
    anns("scale", "deployment", "web", "--replicas=2")
    runs(shop, "large", 2, "what she gives up is hers to have")
    eventually(lambda: summaries(teams)["ann"] == f"tree {teams.tree}: cpu 2/2", what="and that is counted")


def test_what_waits_for_a_limit_goes_when_that_is_raised_and_a_quota_takes_its_limits_along(teams: Teams) -> None:
    lab, shop = teams.stages["lab"], teams.stages["shop"]

    def limit_lab(cpu: str) -> None:
        change = {"spec": {"limits": [ann(cpu=cpu)]}}
        lab.federation.api.patch("elasticquota", "lab", change=change, namespace=lab.namespace)

    limit_lab("1")
    anns = tenant(lab, "ann")
    anns.apply(deployment("web", 4, "500m"))
    tenant(shop, "ann").apply(deployment("elsewhere", 4, "500m"))
    reason = f"limit of user ann in tree {teams.tree}, on {lab.namespace}/lab: requested: cpu=2"
    eventually(lambda: lab.has_event("web", "Held", reason), what="it is too much for her there")
    runs(shop, "elsewhere", 4, "and nowhere else")
    limit_lab("2")
    runs(lab, "web", 4, "a limit that is raised is news")
    expected = {"ann": f"{lab.namespace}/lab: cpu 2/2"}
    eventually(lambda: summaries(teams) == expected, what="what counts there is counted")

    anns("delete", "deployment", "web")
    eventually(lambda: teams.used("lab") == "0", what="nothing is left of it")
    lab.delete("elasticquota", "lab")
    eventually(lambda: accounts(teams) == {}, what="nor of the limit")
