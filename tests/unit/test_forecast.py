"""What a workload will cost, and what is said about it."""

from dataclasses import replace
from typing import Any

import pytest

from federation_quota import forecast
from federation_quota.binding import Binding, ClusterShare, ObjectKey, TemplateRef
from federation_quota.karmadaquota import DENY, HOLD, WARN, Quota
from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Ask, Books, Refused
from federation_quota.ledger.view import Entry, View
from federation_quota.resources import Resources
from federation_quota.stamp import Stamp
from tests.conformance.bookstore import NAMESPACE
from tests.unit.accounts import claim, quota

BINDING = Binding(
    ObjectKey(NAMESPACE, "web-deployment"),
    "u",
    7,
    TemplateRef("apps/v1", "Deployment", NAMESPACE, "web"),
    demand=Resources.parse({"cpu": 2, "pods": 2, "count/deployments.apps": 1}),
    assigned=Resources.parse({"cpu": 2, "pods": 2, "count/deployments.apps": 1}),
    request=Resources.parse({"cpu": 1}),
    replicas=2,
    clusters=(ClusterShare("m1", 1), ClusterShare("m2", 1)),
    stamp=Stamp("gold", resource="deployments"),
)


def deployment(replicas: int, cpu: str = "1", priority_class: str = "") -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    pod = {"containers": [container], "priorityClassName": priority_class}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "template": {"spec": pod}},
    }


def account(on_exceeded: str = DENY, **fields: Any) -> Account:  # noqa: ANN401
    return replace(quota(**fields), beside=Quota(on_exceeded, 1, {}))


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [("Deployment", "web", "web-deployment"), ("Role", "a:B", "a.b-role"), ("Job", "a.b", "a.b-job")],
)
def test_bindings_are_named_as_karmada_names_them(kind: str, name: str, expected: str) -> None:
    assert forecast.binding_name(kind, name) == expected


class TestAsk:
    def test_of_something_new(self) -> None:
        ask = forecast.ask(deployment(3, "500m", "gold"), "deployments", None)
        assert ask.binding == "web-deployment"
        assert ask.new == claim({"cpu": "1500m", "pods": 3, "count/deployments.apps": 1}, "gold")
        assert ask.old == claim({})
        assert ask.reservation, "whoever judges it makes one"

    def test_of_something_bound(self) -> None:
        ask = forecast.ask(deployment(3, priority_class="gold"), "deployments", BINDING)
        assert ask.new.charge["cpu"] == Resources.parse({"cpu": 3})["cpu"]
        assert ask.old == claim({"cpu": 2, "pods": 2, "count/deployments.apps": 1}, "gold")
        assert ask.increases
        assert ask.reservation.base == BINDING.version
        assert not forecast.ask(deployment(2, priority_class="gold"), "deployments", BINDING).increases
        assert not forecast.ask(deployment(1, priority_class="gold"), "deployments", BINDING).increases

    @pytest.mark.parametrize(
        ("clusters", "copies"),
        [
            ((), 1),
            ((ClusterShare("m1", 2),), 1),
            ((ClusterShare("m1", 2), ClusterShare("m2", 2)), 2),
            ((ClusterShare("m1", 2), ClusterShare("m2", 1)), 1),
        ],
    )
    def test_each_copy_of_a_duplicated_workload_is_asked_for(
        self, clusters: tuple[ClusterShare, ...], copies: int
    ) -> None:
        ask = forecast.ask(deployment(5), "deployments", replace(BINDING, clusters=clusters))
        assert ask.new.charge == Resources.parse({"cpu": 5 * copies, "pods": 5 * copies, "count/deployments.apps": 1})

    def test_scaled_to_nothing_before(self) -> None:
        asleep = replace(BINDING, replicas=0, clusters=(ClusterShare("m1", 0), ClusterShare("m2", 0)))
        assert (
            forecast.ask(deployment(5), "deployments", asleep).new.charge["cpu"] == Resources.parse({"cpu": 5})["cpu"]
        )


@pytest.mark.parametrize(
    ("after", "before", "more"),
    [
        (deployment(1), None, True),
        (deployment(3), deployment(2), True),
        (deployment(2, "2"), deployment(3, "1"), True),
        (deployment(2), deployment(2), False),
        (deployment(1), deployment(2), False),
        (deployment(2, "500m"), deployment(2), False),
        (deployment(1, priority_class="gold"), deployment(2), True),
    ],
)
def test_asking_for_more(after: dict[str, Any], before: dict[str, Any] | None, more: bool) -> None:
    assert forecast.asks_more(after, before, "deployments") is more


def refused(account: Account, ask: Ask) -> Refused:
    view = View()
    view.upsert(NAMESPACE, "old", Entry("u", 1, claim({"cpu": 8, "memory": "2Gi"})))
    verdict = Books(account, view).judge(ask)
    assert isinstance(verdict, Refused)
    return verdict


class TestWord:
    @pytest.mark.parametrize(
        ("on_exceeded", "is_running", "replicas", "outcome"),
        [
            (DENY, False, 3, "if propagated, it will not be scheduled until something is freed"),
            (DENY, False, 11, "if propagated, it will not be scheduled until the quota is raised"),
            (DENY, True, 3, "if propagated, the change will not reach the members until something is freed"),
            (HOLD, False, 3, "if propagated, it is held until something is freed"),
            (HOLD, True, 11, "if propagated, the change waits until the quota is raised"),
            (WARN, False, 11, "let through, this quota only warns"),
        ],
    )
    def test_says_what_the_quota_will_do(self, on_exceeded: str, is_running: bool, replicas: int, outcome: str) -> None:
        team = account(on_exceeded, name="team")
        ask = forecast.ask(deployment(replicas), "deployments", None)
        told = forecast.word(team, ask, refused(team, ask).exceeded, is_running=is_running, only_warns=False)
        assert told == f"quota team: {replicas} more cpu asked for, 8 of 10 used: {outcome}"

    def test_says_so_when_the_whole_system_only_warns(self) -> None:
        team = account(name="team")
        ask = forecast.ask(deployment(3), "deployments", None)
        told = forecast.word(team, ask, refused(team, ask).exceeded, is_running=True, only_warns=True)
        assert told.endswith(": let through, federation-quota only warns for now")

    def test_names_everything_that_is_exceeded_under_the_names_of_the_quota(self) -> None:
        team = account(name="team", limits={"requests.cpu": 10, "pods": 2})
        ask = forecast.ask(deployment(3), "deployments", None)
        told = forecast.word(team, ask, refused(team, ask).exceeded, is_running=False, only_warns=False)
        assert told.startswith(
            "quota team: 3 more pods asked for, 0 of 2 used; 3 more requests.cpu asked for, 8 of 10 used: if"
        )

    def test_what_can_never_fit_in_one_respect_can_never_fit(self) -> None:
        team = account(name="team", limits={"cpu": 10, "pods": 2})
        ask = forecast.ask(deployment(3), "deployments", None)
        told = forecast.word(team, ask, refused(team, ask).exceeded, is_running=False, only_warns=False)
        assert told.endswith("until the quota is raised")

    def test_is_never_too_long_and_always_tells_the_outcome(self) -> None:
        requests = {f"example.com/dongle-{number}": 3 for number in range(40)}
        limits: dict[str, str | int] = dict.fromkeys(requests, 1)
        manifest = deployment(1)
        manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = requests
        ask = forecast.ask(manifest, "deployments", None)
        for name in ("team", "t" * 253):
            team = account(name=name, limits=limits)
            told = forecast.word(team, ask, refused(team, ask).exceeded, is_running=False, only_warns=False)
            assert len(told) <= forecast.LONGEST
            assert told.endswith(": if propagated, it will not be scheduled until the quota is raised")
            assert told.startswith(f"quota {name}"[:100])
        assert "; and 3" in forecast.word(
            account(name="team", limits=limits), ask, refused(team, ask).exceeded, is_running=False, only_warns=False
        )
