"""Limits of users and groups on the real federation: who goes beyond one is refused and told why, nobody else is."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from localfed.federation import Federation
from tests.federation.grove import growing
from tests.federation.manifests import DIVIDED, deployment, override, policy
from tests.federation.people import tenant
from tests.federation.stage import eventually
from tests.federation.teams import Teams, sharing
from tests.federation.test_works_guard import generations, refused_again

pytestmark = pytest.mark.federation

LIMITS = [
    {"users": ["ann"], "maxResources": {"cpu": "2"}},
    {"users": ["*"], "maxResources": {"cpu": "1"}},
    {"groups": ["dev"], "maxResources": {"memory": "2Gi"}, "maxApplications": 9},
]


@pytest.fixture
def teams(federation: Federation) -> Iterator[Teams]:
    with sharing(federation, {"lab": "8", "shop": "8"}, total={"cpu": "16"}, limits=LIMITS) as found:
        for place in found.stages.values():
            place.apply(policy(DIVIDED))
        yield found


def accounts(teams: Teams) -> dict[str, dict[str, Any]]:
    """The accounts of the tree, by who they are of."""
    items = teams.federation.api.list("usageaccounts")
    return {one["spec"]["name"]: one for one in items if one["spec"]["tree"] == teams.tree}


def test_a_user_goes_up_to_their_limit_and_not_beyond_it_in_all_namespaces_together(teams: Teams) -> None:
    lab, shop = teams.stages["lab"], teams.stages["shop"]
    ann, also, bob = tenant(lab, "ann", "dev"), tenant(shop, "ann", "dev"), tenant(shop, "bob", "ops")
    ann.apply(deployment("web", 2, "500m"))
    eventually(lambda: sum(lab.clusters("web").values()) == 2, what="ann's first runs")
    also.apply(deployment("db", 1, "500m"))
    eventually(lambda: sum(shop.clusters("db").values()) == 1, what="so does her second")

    ann("scale", "deployment", "web", "--replicas=4")
    told = (
        f"exceeded limit of user ann in tree {teams.tree}, in the whole tree: requested: cpu=1, used: cpu=1500m, "
        "limited: cpu=2, left: cpu=500m. Scale down or delete"
    )
    eventually(lambda: lab.is_refused("web", told), what="her limit refuses it")
    assert sum(lab.clusters("web").values()) == 2
    bob.apply(deployment("api", 2, "500m"))
    eventually(lambda: sum(shop.clusters("api").values()) == 2, what="bob has a limit of his own")

    ann("scale", "deployment", "web", "--replicas=3")
    eventually(lambda: sum(lab.clusters("web").values()) == 3, what="up to the limit there is room")
    ann("scale", "deployment", "web", "--replicas=1")
    eventually(lambda: sum(lab.clusters("web").values()) == 1, what="less is never refused")
    assert {name: one["spec"]["kind"] for name, one in accounts(teams).items()} == {
        "ann": "User",
        "bob": "User",
        "dev": "Group",
    }


def test_the_members_of_a_group_share_its_limit(teams: Teams) -> None:
    lab, shop = teams.stages["lab"], teams.stages["shop"]
    ann, bob = tenant(lab, "ann", "dev"), tenant(shop, "bob", "dev")
    # Nothing that a quota of theirs shares: so it waits for nobody's release, and is refused when it is made.
    ann.apply(deployment("web", 1, "0", memory="1Gi"))
    bob.apply(deployment("api", 1, "0", memory="1Gi"))
    eventually(lambda: lab.clusters("web") and shop.clusters("api"), what="both run")
    bob.apply(deployment("more", 1, "0", memory="1Gi"))
    told = (
        f"exceeded limit of group dev in tree {teams.tree}, in the whole tree: requested: memory=1Gi, used: memory=2Gi"
    )
    eventually(lambda: shop.is_refused("more", told), what="the group's limit refuses it")
    assert shop.binding("more") is None

    def waiting() -> list[str]:
        return [one["binding"] for one in accounts(teams)["dev"]["status"].get("waiting") or []]

    eventually(lambda: waiting() == [f"{shop.namespace}/more-deployment"], what="it is listed")
    ann("delete", "deployment", "web")
    eventually(lambda: shop.clusters("more"), what="what ann gives up is bob's to have")


def test_an_override_does_not_get_around_a_limit(teams: Teams) -> None:
    lab = teams.stages["lab"]
    ann = tenant(lab, "ann", "dev")
    ann.apply(deployment("web", 1, "0", memory="1Gi"))
    eventually(lambda: lab.in_members("web"), what="it runs")
    before = generations(lab)
    ann.apply(override("more", "/spec/template/spec/containers/0/resources/requests/memory", "4Gi"))
    told = f"would get memory=4Gi, admitted 1Gi: more than limit of group dev in tree {teams.tree} admitted"
    refused_again(lab, told, before=0)
    assert generations(lab) == before


def test_limits_that_do_not_fit_together_are_refused_by_their_place(federation: Federation) -> None:
    with growing(federation, "limits-admission") as grove:
        grove.apply(grove.tree(limits=[{"users": ["ann"], "maxResources": {"cpu": "10"}}]))
        too_much = [{"users": ["bob", "ann"], "maxResources": {"cpu": "11"}}]
        said = grove.refusal(grove.composite("team", limits=too_much))
        assert "spec.limits[0].maxResources[cpu]" in said
        assert "user ann may have no more than user ann on the tree, above it: 10" in said
        grove.apply(grove.composite("team", limits=[{"users": ["ann"], "maxResources": {"cpu": "8"}}]))
        said = grove.refusal(grove.tree(limits=[{"users": ["ann"], "maxResources": {"cpu": "7"}}]))
        assert f"user ann has 8 on {grove.called('team')}, below it: lower that first" in said
        stored = federation.api.get("quotatree", grove.name)["spec"]["limits"]
        assert json.dumps(stored[0]["maxResources"]) == '{"cpu": "10"}'
