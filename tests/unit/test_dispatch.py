"""What an account minds of what goes to a member."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from federation_quota import dispatch
from federation_quota.binding import Binding, ClusterShare, ObjectKey, TemplateRef
from federation_quota.dispatch import Moved, Overreach
from federation_quota.quantity import parse
from federation_quota.resources import NOTHING, Resources
from federation_quota.stamp import NO_STAMP, Stamp
from federation_quota.workload import REPLICAS, Excess
from tests.unit.accounts import of_class, quota
from tests.unit.limits import ANN, LEAF, account, limited, schemes

TEMPLATE = TemplateRef("apps/v1", "Deployment", "team", "web")
BINDING = Binding(
    ObjectKey("team", "web-deployment"),
    "u",
    7,
    TEMPLATE,
    demand=Resources.parse({"cpu": 2, "pods": 2}),
    request=Resources.parse({"cpu": 1}),
    replicas=2,
    clusters=(ClusterShare("m1", 2),),
    stamp=Stamp(resource="deployments"),
)


def manifest(replicas: int = 2, requests: dict[str, object] | None = None, priority_class: str = "") -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": requests or {"cpu": "1"}}}
    pod = {"containers": [container], "priorityClassName": priority_class}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": replicas, "template": {"spec": pod}}}


def excess(resource: str, found: int, admitted: int) -> Excess:
    return Excess(resource, parse(found), parse(admitted))


@pytest.mark.parametrize(
    ("found", "limits", "minded"),
    [
        (manifest(), {"cpu": 9}, []),
        (manifest(requests={"cpu": "1", "memory": 5}), {"cpu": 9}, []),
        (manifest(requests={"cpu": "2"}), {"cpu": 9}, [excess("cpu", 2, 1)]),
        (manifest(requests={"cpu": "2"}), {"requests.cpu": 9}, [excess("cpu", 2, 1)]),
        (manifest(requests={"cpu": "2"}), {"memory": 9, "pods": 9, "count/deployments.apps": 9}, []),
        (manifest(replicas=3), {"cpu": 9}, [excess(REPLICAS, 3, 2)]),
        (manifest(replicas=3), {"pods": 9}, [excess(REPLICAS, 3, 2)]),
        (manifest(replicas=3), {"memory": 9, "count/deployments.apps": 9}, []),
        (
            manifest(requests={"nvidia.com/gpu": 1}),
            {"nos.nebuly.com/gpu-memory": 99},
            [excess("nvidia.com/gpu", 1, 0)],
        ),
    ],
)
def test_an_account_minds_what_it_limits(
    found: dict[str, Any], limits: dict[str, str | int], minded: list[Overreach]
) -> None:
    assert dispatch.overreach(found, BINDING, "m1", quota(limits=limits).lens) == minded


def test_an_account_of_another_class_minds_nothing() -> None:
    lens = quota(selector=of_class("gold")).lens
    assert dispatch.overreach(manifest(replicas=9), BINDING, "m1", lens) == []


class TestPriorityClass:
    GOLD = quota(selector=of_class("gold")).lens

    def test_moving_under_an_account_that_did_not_admit_it(self) -> None:
        found = dispatch.overreach(manifest(priority_class="gold"), BINDING, "m1", self.GOLD)
        assert found == [Moved("gold", "")]
        assert str(found[0]) == "priorityClassName=gold, admitted none"

    @pytest.mark.parametrize(
        "binding",
        [
            replace(BINDING, stamp=Stamp("gold", resource="deployments")),
            replace(BINDING, stamp=NO_STAMP),
            replace(BINDING, stamp=Stamp(fault="broken")),
            replace(BINDING, demand=Resources.parse({"memory": 1})),
        ],
        ids=["it did", "nobody knows", "cannot be read", "nothing of it is limited"],
    )
    def test_otherwise_it_may_be_called_what_it_likes(self, binding: Binding) -> None:
        assert dispatch.overreach(manifest(priority_class="gold"), binding, "m1", self.GOLD) == []

    def test_leaving_an_account_is_nobodys_harm(self) -> None:
        binding = replace(BINDING, stamp=Stamp("gold", resource="deployments"))
        assert dispatch.overreach(manifest(), binding, "m1", self.GOLD) == []


@pytest.mark.parametrize(
    ("before", "after", "is_closer"),
    [
        ([excess("cpu", 5, 1)], [excess("cpu", 4, 1)], True),
        ([excess("cpu", 5, 1)], [excess("cpu", 5, 1)], False),
        ([excess("cpu", 5, 1)], [excess("cpu", 4, 1), excess("memory", 2, 1)], False),
        ([excess("cpu", 5, 1), excess("memory", 2, 1)], [excess("cpu", 4, 1)], True),
        ([excess("cpu", 5, 1), excess("memory", 2, 1)], [excess("cpu", 4, 1), excess("memory", 2, 1)], False),
        ([], [excess("cpu", 2, 1)], False),
        ([Moved("gold", "")], [Moved("gold", "")], False),
        ([excess("cpu", 5, 1)], [Moved("gold", "")], False),
    ],
)
def test_coming_closer(before: Sequence[Overreach], after: Sequence[Overreach], is_closer: bool) -> None:
    assert dispatch.comes_closer(before, after) is is_closer


def test_an_account_of_objects_alone_does_not_mind_pods() -> None:
    assert not dispatch.minds_pods(quota(limits={"services": 1, "count/deployments.apps": 2}).lens)
    assert dispatch.minds_pods(quota(limits={"services": 1, "pods": 2}).lens)


OWNED = replace(BINDING, stamp=Stamp(resource="deployments", owner=ANN, leaf=LEAF), assigned=BINDING.demand)


@pytest.mark.parametrize(
    ("found", "binding", "limits", "minded"),
    [
        (manifest(replicas=3), OWNED, limited("ann", cpu=9), [excess(REPLICAS, 3, 2)]),
        (manifest(requests={"cpu": "2"}), OWNED, limited("*", cpu=9), [excess("cpu", 2, 1)]),
        (manifest(replicas=3), OWNED, limited("ann", memory=9), []),
        (manifest(replicas=3), OWNED, limited("bob", cpu=9), []),
        (manifest(replicas=3), replace(OWNED, stamp=BINDING.stamp), limited("ann", cpu=9), []),
        (manifest(replicas=3), OWNED, limited("ann", applications=1), []),
        (
            manifest(replicas=1),
            replace(OWNED, replicas=0, demand=NOTHING, assigned=NOTHING, clusters=(ClusterShare("m1", 0),)),
            limited("ann", applications=1),
            [excess(REPLICAS, 1, 0)],
        ),
    ],
    ids=["named", "wildcard", "another resource", "somebody else's", "nobody's", "no more applications", "one more"],
)
def test_a_limit_of_a_user_is_minded_for_what_is_theirs(
    found: dict[str, Any], binding: Binding, limits: dict[str, Any], minded: Sequence[Overreach]
) -> None:
    lens = account(schemes({"dept": [limits]})).lens
    assert dispatch.overreach(found, binding, "m1", lens) == minded
