"""Numbers with a `#` are Karmada's own, from its tests of the same calculation."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota import charge
from federation_quota.binding import ClusterShare, Component
from federation_quota.charge import ComponentTerms, Cost, Request, Target, Tariff, Terms, Unchargeable
from federation_quota.resources import NOTHING, Resources
from federation_quota.stamp import NO_STAMP, Stamp

STAMP = Stamp(resource="deployments")
NOS = json.loads((Path(__file__).parents[1] / "vectors" / "nos.json").read_text())


def ask(**amounts: str) -> Request:
    return tuple(amounts.items())


deployment = partial(Terms, "apps/v1", "Deployment")


def flink(
    *components: ComponentTerms,
    targets: tuple[Target, ...] = (),
    evicted: tuple[ClusterShare, ...] = (),
    is_held: bool = False,
) -> Terms:
    terms = Terms("flink.apache.org/v1beta1", "FlinkDeployment", components=components)
    return terms._replace(targets=targets, evicted=evicted, is_held=is_held)


def targets(**replicas: int) -> tuple[Target, ...]:
    return tuple(Target(name, count) for name, count in replicas.items())


def amounts(texts: dict[str, str | int], objects: str = "count/deployments.apps") -> Resources:
    return Resources.parse({**texts, objects: 1} if objects else texts)


def cost(terms: Terms, tariff: Tariff = charge.STANDARD) -> Cost:
    return charge.cost(terms, STAMP if terms.kind == "Deployment" else NO_STAMP, tariff)


class TestReplicas:
    def test_demand_is_what_is_asked_and_assigned_what_was_given(self) -> None:
        result = cost(deployment(replicas=4, request=ask(cpu="500m", memory="128Mi"), targets=targets(m1=1, m2=2)))
        assert result.demand == amounts({"cpu": "2", "memory": "512Mi", "pods": 4})
        assert result.assigned == amounts({"cpu": "1500m", "memory": "384Mi", "pods": 3})  # 1500m, 384Mi
        assert result.request == Resources.parse({"cpu": "500m", "memory": "128Mi"})

    def test_karmadas_five_replicas(self) -> None:
        result = cost(deployment(replicas=5, request=ask(cpu="1", memory="2Gi"), targets=targets(m1=3, m2=2)))
        assert result.assigned == amounts({"cpu": "5", "memory": "10Gi", "pods": 5})  # 5, 10Gi

    def test_karmadas_three_bindings(self) -> None:
        table = [(2, "1", "2Gi"), (4, "500m", "500Mi"), (2, "2", "1Gi")]
        total = NOTHING
        for count, cpu, memory in table:
            total += cost(deployment(request=ask(cpu=cpu, memory=memory), targets=targets(m1=count))).assigned
        assert total == amounts(
            {"cpu": "8", "memory": "8144Mi", "pods": 8, "count/deployments.apps": 3}, ""
        )  # 8, 8144Mi

    def test_every_copy_of_a_duplicated_workload_is_paid_for(self) -> None:
        result = cost(deployment(replicas=2, request=ask(cpu="1"), targets=targets(m1=2, m2=2, m3=2)))
        assert result.demand["cpu"] == Resources.parse({"cpu": 2})["cpu"]
        assert result.assigned == amounts({"cpu": "6", "pods": 6})

    def test_nothing_given_yet_is_nothing_assigned_not_even_the_object(self) -> None:
        result = cost(deployment(replicas=2, request=ask(cpu="1")))
        assert result.assigned == NOTHING
        assert result.demand == amounts({"cpu": "2", "pods": 2})

    def test_pods_without_requests_cost_pods(self) -> None:
        assert cost(deployment(replicas=3)).demand == amounts({"pods": 3})

    def test_zero_is_left_out(self) -> None:
        assert cost(deployment(replicas=1, request=ask(cpu="0", memory="1Gi"))).demand == amounts(
            {"memory": "1Gi", "pods": 1}
        )

    def test_names_that_mean_the_same_are_one(self) -> None:
        request = (("requests.cpu", "1"), ("cpu", "1"), ("requests.example.com/dongle", 2), ("pods", "5"))
        assert cost(deployment(replicas=1, request=request)).demand == amounts(
            {"cpu": "2", "example.com/dongle": 2, "pods": 1}
        )

    def test_equal_costs_are_one_object(self) -> None:
        first = cost(deployment(replicas=2, request=ask(cpu="1"), targets=targets(m1=2)))
        second = cost(deployment(replicas=2, request=ask(cpu="1000m"), targets=targets(m2=1, m3=1)))
        assert first.demand is first.assigned is second.demand is second.assigned

    def test_replicas_cost_is_the_same_without_the_object(self) -> None:
        request = Resources.parse({"cpu": "1", "nvidia.com/gpu": 1})
        expected = {"cpu": 3, "nvidia.com/gpu": 3, "quota.karmada.io/gpu-memory": 48, "pods": 3}
        assert charge.replicas_cost(request, 3, Tariff(gigabytes_per_gpu=16)) == Resources.parse(expected)


class TestComponents:
    def test_every_cluster_has_the_whole_set(self) -> None:
        terms = flink(ComponentTerms("jm", 2, ask(cpu="25m")), ComponentTerms("tm", 1, ask(cpu="30m")))
        name = "count/flinkdeployments.flink.apache.org"
        assert cost(terms).demand == amounts({"cpu": "80m", "pods": 3}, name)
        assert cost(terms).assigned == NOTHING
        scheduled = cost(terms._replace(targets=targets(m1=0, m2=0)))
        assert scheduled.assigned == amounts({"cpu": "160m", "pods": 6}, name)  # 160m
        assert scheduled.components == (
            Component("jm", 2, Resources.parse({"cpu": "25m"})),
            Component("tm", 1, Resources.parse({"cpu": "30m"})),
        )

    def test_karmadas_two_components(self) -> None:
        result = cost(flink(ComponentTerms("a", 2, ask(cpu="500m", memory="1Gi")), targets=targets(m1=0, m2=0)))
        assert (str(result.assigned["cpu"]), str(result.assigned["memory"])) == ("2", "4Gi")  # 2, 4Gi

    def test_karmadas_uneven_components_whatever_the_clusters_replicas_are(self) -> None:
        terms = flink(
            ComponentTerms("a", 2, ask(cpu="100m", memory="128Mi")),
            ComponentTerms("b", 0, ask(cpu="50m", memory="64Mi")),
            ComponentTerms("c", 3, ask(cpu="25m")),
            ComponentTerms("d", 2, ask(memory="32Mi")),
            targets=targets(m1=7, m2=7),
        )
        result = cost(terms)
        assert (str(result.assigned["cpu"]), str(result.assigned["memory"])) == ("550m", "640Mi")  # 550m, 640Mi
        assert str(result.assigned["pods"]) == "14"

    def test_a_cluster_that_lists_its_components_has_those(self) -> None:
        terms = flink(
            ComponentTerms("jm", 1, ask(cpu="1")),
            ComponentTerms("tm", 4, ask(cpu="2")),
            targets=(
                Target("m1", components=(("jm", 1), ("tm", 1))),
                Target("m2", components=(("tm", 3),)),
                Target("m3"),
            ),
        )
        assert str(cost(terms).assigned["cpu"]) == str(1 + 2 + 6 + 9)
        assert str(cost(terms).assigned["pods"]) == str(2 + 3 + 5)

    def test_of_two_components_of_one_name_the_dearer_is_meant(self) -> None:
        terms = flink(
            ComponentTerms("x", 1, ask(cpu="3")),
            ComponentTerms("x", 1, ask(cpu="2")),
            targets=(Target("m1", components=(("x", 2),)),),
        )
        assert str(cost(terms).assigned["cpu"]) == "6"


class TestObjects:
    @pytest.mark.parametrize(
        ("api_version", "kind", "plural", "name"),
        [
            ("v1", "Service", "services", "count/services"),
            ("v1", "Secret", "secrets", "count/secrets"),
            ("apps/v1", "DaemonSet", "daemonsets", "count/daemonsets.apps"),
            ("example.com/v1", "Goose", "geese", "count/geese.example.com"),
        ],
    )
    def test_one_per_binding_however_many_clusters(self, api_version: str, kind: str, plural: str, name: str) -> None:
        terms = Terms(api_version, kind, targets=targets(m1=0, m2=0, m3=0))
        result = charge.cost(terms, Stamp(resource=plural))
        assert result.demand == result.assigned == Resources.parse({name: 1})

    def test_a_dependency_is_where_those_are_that_need_it(self) -> None:
        terms = Terms("v1", "ConfigMap", is_required=True)
        for held in (False, True):
            result = charge.cost(terms._replace(is_held=held), Stamp(resource="configmaps"))
            assert result.assigned == Resources.parse({"count/configmaps": 1})

    @pytest.mark.parametrize(
        ("kind", "plural"),
        [
            ("Deployment", "deployments"),
            ("Ingress", "ingresses"),
            ("NetworkPolicy", "networkpolicies"),
            ("Gateway", "gateways"),
            ("Endpoints", "endpoints"),
            ("Mailbox", "mailboxes"),
            ("Batch", "batches"),
            ("Y", "ys"),
        ],
    )
    def test_without_a_stamp_the_plural_is_formed(self, kind: str, plural: str) -> None:
        assert charge.cost(Terms("x.io/v1", kind), NO_STAMP).demand == Resources.parse({f"count/{plural}.x.io": 1})


class TestGpuMemory:
    @pytest.mark.parametrize("case", NOS["gpu_memory"], ids=lambda case: case["name"])
    def test_as_nos_counts_it(self, case: dict[str, Any]) -> None:
        request = tuple(case["request"].items())
        result = cost(deployment(replicas=1, request=request), Tariff(case["nvidiaGpuResourceMemoryGB"]))
        assert result.demand["quota.karmada.io/gpu-memory"].whole() == case["expectedGpuMemoryGB"]

    def test_slices_count_where_that_is_wanted(self) -> None:
        request = (("nvidia.com/gpu-10gb", 2), ("nvidia.com/gpu", 1), ("nvidia.com/mig-1g.5gb.me", 1))
        result = cost(deployment(replicas=3, request=request), Tariff(8, counts_gpu_slices=True))
        assert result.demand["quota.karmada.io/gpu-memory"].whole() == 3 * (20 + 8 + 5)

    @pytest.mark.parametrize("name", ["nos.nebuly.com/gpu-memory", "n8s.nebuly.ai/gpu-memory"])
    def test_what_is_asked_for_by_an_older_name_is_added(self, name: str) -> None:
        result = cost(deployment(replicas=1, request=((name, 4), ("nvidia.com/gpu", 1))))
        assert result.demand["quota.karmada.io/gpu-memory"].whole() == 36
        assert name not in result.demand


class TestHeld:
    def test_a_held_binding_has_what_it_was_given(self) -> None:
        terms = deployment(replicas=3, request=ask(cpu="1"), targets=targets(m1=2), is_held=True)
        assert cost(terms).assigned == amounts({"cpu": 2, "pods": 2})

    def test_and_nothing_is_kept_for_what_it_lost(self) -> None:
        terms = deployment(replicas=3, request=ask(cpu="1"), evicted=(ClusterShare("m1", 3),), is_held=True)
        assert cost(terms).assigned == NOTHING
        assert cost(flink(ComponentTerms("a", 1), evicted=(ClusterShare("m1", 0),), is_held=True)).assigned == NOTHING


class TestFinishedJobs:
    JOB = Terms("batch/v1", "Job", replicas=3, request=ask(cpu="1"), targets=targets(m1=2, m2=1))

    @pytest.mark.parametrize(
        ("changes", "is_finished"),
        [
            ({"finished": frozenset({"m1", "m2"})}, True),
            ({"finished": frozenset({"m1", "m2", "m3"})}, True),
            ({"finished": frozenset({"m1"})}, False),
            ({"finished": frozenset()}, False),
            ({"finished": frozenset({"m1"}), "targets": ()}, False),
            ({"finished": frozenset(), "targets": ()}, False),
            ({"finished": frozenset(), "targets": (), "replicas": 0}, False),
            ({"finished": frozenset({"m1"}), "targets": targets(m1=2), "evicted": (ClusterShare("m2", 1),)}, False),
            ({"finished": frozenset({"m3"}), "targets": targets(m3=3), "evicted": (ClusterShare("m1", 2),)}, True),
            ({"finished": frozenset({"m1", "m2"}), "replicas": 4}, False),
            ({"finished": frozenset({"m1", "m2"}), "kind": "CronJob"}, False),
            ({"finished": frozenset({"m1", "m2"}), "api_version": "batch.volcano.sh/v1alpha1"}, False),
        ],
    )
    def test_only_when_it_has_ended_everywhere(self, changes: dict[str, Any], is_finished: bool) -> None:
        terms = self.JOB._replace(**changes)
        assert charge.is_finished(terms) is is_finished
        result = charge.cost(terms, Stamp(resource="jobs"))
        if is_finished:
            assert result.demand == result.assigned == Resources.parse({"count/jobs.batch": 1})
        else:
            assert ("cpu" in result.demand) is bool(terms.replicas)


class TestUnchargeable:
    @pytest.mark.parametrize(
        ("terms", "told", "at_least"),
        [
            (deployment(replicas=-1, targets=targets(m1=2)), "spec.replicas: -1 is no number", {"pods": 2}),
            (deployment(replicas=2, targets=targets(m1=-2)), "spec.clusters: m1: replicas: -2", {"pods": 2}),
            (deployment(replicas=2**31), "spec.replicas: 2147483648", {"pods": 2**31 - 1}),
            (deployment(replicas=2, evicted=(ClusterShare("m1", -1),)), "gracefulEvictionTasks: m1: ", {"pods": 2}),
            (
                deployment(replicas=2, request=ask(cpu="1", memory="lots")),
                "spec.replicaRequirements: resourceRequest: memory: 'lots' is not a quantity",
                {"pods": 2, "cpu": 2},
            ),
            (
                deployment(replicas=2, request=ask(cpu="-1", memory="1Gi")),
                "resourceRequest: cpu: -1 is below zero",
                {"pods": 2, "memory": "2Gi"},
            ),
            (deployment(replicas=2, request=ask(cpu="1e999999999")), "too large", {"pods": 2}),
        ],
    )
    def test_the_reason_is_told_and_the_rest_counted(
        self, terms: Terms, told: str, at_least: dict[str, str | int]
    ) -> None:
        for _again in range(2):  # a fault is not forgotten because it was seen before
            with pytest.raises(Unchargeable) as refusal:
                cost(terms)
            assert told in str(refusal.value)
            found = refusal.value.at_least
            assert found.demand.maximum(found.assigned) == amounts(at_least)

    def test_components_too(self) -> None:
        terms = flink(
            ComponentTerms("a", -1, ask(cpu="1")),
            ComponentTerms("b", 2, ask(cpu="?", memory="1Gi")),
            targets=(Target("m1", components=(("b", 1), ("c", 9))), Target("m2", components=(("b", -1),))),
        )
        with pytest.raises(Unchargeable) as refusal:
            cost(terms)
        text = str(refusal.value)
        assert text.startswith(
            "spec.components: a: replicas: -1 is no number of replicas; spec.components: b: resourceRe"
        )
        assert text.endswith("; and 1 more")
        assert str(refusal.value.at_least.demand["memory"]) == "2Gi"
        assert str(refusal.value.at_least.assigned["memory"]) == "1Gi"

    def test_one_bad_name_does_not_hide_another(self) -> None:
        with pytest.raises(Unchargeable) as refusal:
            cost(deployment(replicas=1, request=ask(cpu="x", memory="-1", storage="1")))
        assert "cpu: 'x'" in str(refusal.value)
        assert "memory: -1" in str(refusal.value)


@given(
    replicas=st.integers(0, 50),
    shares=st.lists(st.integers(0, 50), max_size=4),
    cpu=st.integers(0, 10_000),
    more=st.integers(1, 20),
)
def test_more_is_never_cheaper(replicas: int, shares: list[int], cpu: int, more: int) -> None:
    def charged(replicas: int, shares: list[int], cpu: int) -> Resources:
        clusters = tuple(Target(f"m{index}", share) for index, share in enumerate(shares))
        result = cost(deployment(replicas=replicas, request=(("cpu", f"{cpu}m"),), targets=clusters))
        return result.demand.maximum(result.assigned)

    base = charged(replicas, shares, cpu)
    for other in (
        charged(replicas + more, shares, cpu),
        charged(replicas, [*shares, more], cpu),
        charged(replicas, shares, cpu + more),
    ):
        assert not [name for name in base if other[name] < base[name]]
    assert base["cpu"].milli() == max(replicas, sum(shares)) * cpu
