"""Workloads whose pods use more than their binding says, with both figures."""

from dataclasses import replace

from federation_quota import undercount
from federation_quota.binding import Binding, Component
from federation_quota.pod import Footprint, Workload
from federation_quota.resources import NOTHING, Resources
from tests.unit.test_placement import WEB

BINDING = replace(WEB, request=Resources.parse({"cpu": "100m"}))


def pods(cpu: str, workload: Workload | None = Workload("Deployment", "web")) -> Footprint:  # noqa: B008 - a value
    return Footprint(Resources.parse({"cpu": cpu, "pods": 1}), workload=workload)


def find(*sorts: Footprint, binding: Binding = BINDING) -> list[str]:
    bindings = {BINDING.key: binding}
    return [str(one) for one in undercount.find("m1", "shop", sorts, bindings, ["cpu", "pods"])]


def test_both_figures_are_told_once_for_all_pods_of_a_workload() -> None:
    (told,) = find(pods("150m"), pods("170m"), pods("100m"))
    assert told.startswith("a replica of Deployment web uses cpu=170m in m1, its binding says cpu=100m")


def test_nothing_is_said_of_pods_that_use_what_is_said_or_belong_to_nobody() -> None:
    assert find(pods("100m"), pods("9", None), pods("9", Workload("DaemonSet", "agent"))) == []


def test_nothing_is_said_where_it_cannot_be_told() -> None:
    several = replace(BINDING, request=NOTHING, components=(Component("a", 1, NOTHING),))
    assert find(pods("9"), binding=several) == []
    assert find(pods("9"), binding=replace(BINDING, clusters=())) == []
