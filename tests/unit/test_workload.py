from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota import workload
from federation_quota.binding import Binding, ClusterShare, Component, ObjectKey, TemplateRef
from federation_quota.quantity import parse
from federation_quota.resources import NOTHING, Resources
from federation_quota.workload import Excess, WorkloadError


def container(requests: object = None, limits: object = None) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}}


def deployment(*containers: object, replicas: object = 1, kind: str = "Deployment", **pod: object) -> dict[str, Any]:
    spec = {"replicas": replicas, "template": {"spec": {"containers": list(containers), **pod}}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec}


def of_kind(api_version: str, kind: str, spec: object) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "spec": spec}


class TestReplicas:
    @pytest.mark.parametrize(
        ("manifest", "replicas"),
        [
            (deployment(replicas=3), 3),
            (deployment(replicas=0), 0),
            (deployment(replicas=None), 1),
            (deployment(replicas=2, kind="ReplicaSet"), 2),
            (deployment(replicas=2, kind="StatefulSet"), 2),
            (of_kind("apps/v1", "Deployment", {}), 1),
            (of_kind("apps/v1", "Deployment", None), 1),
            (of_kind("batch/v1", "Job", {}), 1),
            (of_kind("batch/v1", "Job", {"parallelism": 4}), 4),
            (of_kind("batch/v1", "Job", {"parallelism": 4, "completions": 2}), 2),
            (of_kind("batch/v1", "Job", {"parallelism": 2, "completions": 9}), 2),
            (of_kind("batch/v1", "Job", {"parallelism": 0, "completions": 9}), 0),
            (of_kind("v1", "Pod", {}), 1),
            (deployment(kind="DaemonSet"), None),
            (of_kind("batch/v1", "CronJob", {}), None),
            (of_kind("v1", "ReplicationController", {"replicas": 3}), None),
            (of_kind("v1", "ConfigMap", None), None),
            (of_kind("batch.volcano.sh/v1alpha1", "Job", {"parallelism": 4}), None),
            (of_kind("apps.kruise.io/v1beta1", "StatefulSet", {"replicas": 4}), None),
        ],
    )
    def test_as_karmada_reads_them(self, manifest: dict[str, Any], replicas: int | None) -> None:
        assert workload.replicas(manifest) == replicas

    @pytest.mark.parametrize("number", [-1, 1.5, "3", True, 2**31, {}])
    def test_what_is_no_number_is_refused(self, number: object) -> None:
        with pytest.raises(WorkloadError, match=r"spec\.replicas is no number"):
            workload.replicas(deployment(replicas=number))


class TestRequest:
    @pytest.mark.parametrize(
        ("manifest", "request_of_one"),
        [
            (deployment(), {}),
            (of_kind("v1", "ConfigMap", None), {}),
            (of_kind("x.io/v1", "Thing", {"template": {"spec": {"replicas": 3}}}), {}),
            (
                deployment(container({"cpu": "100m", "memory": "1Gi"}), container({"cpu": 1})),
                {"cpu": "1100m", "memory": "1Gi"},
            ),
            # what is limited is requested, unless it is requested
            (deployment(container({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"})), {"cpu": "1", "memory": "1Gi"}),
            (deployment(container(None, {"nvidia.com/gpu": 1})), {"nvidia.com/gpu": 1}),
            (deployment(container({"cpu": "0"}, {"cpu": "2"})), {}),
            # the largest init container, where that is more
            (
                deployment(
                    container({"cpu": "1", "memory": "1Gi"}),
                    container({"cpu": "1"}),
                    initContainers=[container({"cpu": "500m", "memory": "2Gi"}), container(None, {"memory": "3Gi"})],
                ),
                {"cpu": "2", "memory": "3Gi"},
            ),
            # a restartable one is no different
            (
                deployment(
                    container({"cpu": "1"}), initContainers=[container({"cpu": "1"}) | {"restartPolicy": "Always"}]
                ),
                {"cpu": "1"},
            ),
            (
                deployment(container({"cpu": "1"}), overhead={"cpu": "250m", "memory": "64Mi"}),
                {"cpu": "1250m", "memory": "64Mi"},
            ),
            # at pod level it is not seen
            (deployment(container(), resources={"requests": {"cpu": "8"}}), {}),
            # rounded up, each container by itself
            (deployment(container({"cpu": "0.5m"}), container({"cpu": "1n"})), {"cpu": "2m"}),
            (deployment(container({"memory": "1500m"}), container({"memory": "0.1"})), {"memory": "3"}),
            # only what Karmada counts
            (
                deployment(
                    container(
                        {
                            "ephemeral-storage": "1Gi",
                            "hugepages-2Mi": "4Mi",
                            "attachable-volumes-x": 1,
                            "example.com/dongle": 2,
                            "kubernetes.io/thing": 1,
                            "storage": "1Gi",
                            "pods": 3,
                            "requests.example.com/dongle": 7,
                        }
                    )
                ),
                {
                    "ephemeral-storage": "1Gi",
                    "hugepages-2Mi": "4Mi",
                    "attachable-volumes-x": 1,
                    "example.com/dongle": 2,
                    "kubernetes.io/thing": 1,
                },
            ),
            (of_kind("v1", "Pod", {"containers": [container({"cpu": "3"})]}), {"cpu": "3"}),
            (
                of_kind(
                    "batch/v1",
                    "CronJob",
                    {"jobTemplate": {"spec": {"template": {"spec": {"containers": [container({"cpu": 1})]}}}}},
                ),
                {"cpu": "1"},
            ),
        ],
    )
    def test_as_karmada_works_it_out(self, manifest: dict[str, Any], request_of_one: dict[str, str | int]) -> None:
        assert workload.request(manifest) == Resources.parse(request_of_one)

    @pytest.mark.parametrize(
        ("manifest", "told"),
        [
            (deployment(container({"cpu": "lots"})), "requests: cpu: 'lots' is not a quantity"),
            (deployment(container({"cpu": "-1"})), "requests: cpu: -1 is below zero"),
            (deployment(container({"cpu": []})), "requests: cpu: a list"),
            (deployment(container("all")), "requests is not an object"),
            (deployment("c"), "containers is not a list of objects"),
            (deployment(container(), initContainers={}) | {"spec": {"template": []}}, "template is not an object"),
            ({"spec": {}}, "apiVersion and a kind"),
        ],
    )
    def test_what_cannot_be_read_is_told(self, manifest: dict[str, Any], told: str) -> None:
        with pytest.raises(WorkloadError, match=told):
            workload.request(manifest)


class TestPriorityClass:
    @pytest.mark.parametrize(
        ("manifest", "name"),
        [
            (deployment(priorityClassName="high"), "high"),
            (deployment(), ""),
            (deployment(priorityClassName=None), ""),
            (of_kind("v1", "Pod", {"containers": [], "priorityClassName": "high"}), "high"),
            (of_kind("v1", "Pod", {"priorityClassName": "high"}), "high"),
            (deployment(kind="DaemonSet", priorityClassName="high"), "high"),
            (
                of_kind(
                    "batch/v1",
                    "CronJob",
                    {"jobTemplate": {"spec": {"template": {"spec": {"containers": [], "priorityClassName": "low"}}}}},
                ),
                "low",
            ),
            (of_kind("v1", "Service", {}), ""),
        ],
    )
    def test_it_stands_in_the_pod(self, manifest: dict[str, Any], name: str) -> None:
        assert workload.priority_class(manifest) == name

    def test_what_is_no_name_is_refused(self) -> None:
        with pytest.raises(WorkloadError, match="priorityClassName"):
            workload.priority_class(deployment(priorityClassName=3))


ADMITTED = Binding(
    key=ObjectKey("team-a", "web-deployment"),
    uid="u1",
    version=7,
    template=TemplateRef("apps/v1", "Deployment", "team-a", "web"),
    request=Resources.parse({"cpu": "100m", "memory": "1Gi"}),
    replicas=5,
    clusters=(ClusterShare("m1", 3), ClusterShare("m2", 2)),
    evicted=(ClusterShare("m3", 4),),
)
SAME = container({"cpu": "0.1", "memory": "1024Mi"})


class TestExceeds:
    @pytest.mark.parametrize(
        ("cluster", "replicas"),
        [("m1", 3), ("m1", 0), ("m2", 2), ("m3", 4)],
        ids=["all", "none", "its share", "evicted"],
    )
    def test_what_was_admitted_passes(self, cluster: str, replicas: int) -> None:
        assert workload.exceeds(deployment(SAME, replicas=replicas), ADMITTED, cluster) == []

    @pytest.mark.parametrize(("cluster", "admitted"), [("m1", 3), ("m2", 2), ("m3", 4), ("m9", 0)])
    def test_no_cluster_gets_more_replicas_than_its_own(self, cluster: str, admitted: int) -> None:
        found = workload.exceeds(deployment(SAME, replicas=admitted + 1), ADMITTED, cluster)
        assert found == [Excess("replicas", parse(admitted + 1), parse(admitted))]
        assert str(found[0]) == f"replicas={admitted + 1}, admitted {admitted}"

    def test_no_replica_gets_more_than_was_admitted(self) -> None:
        larger = deployment(container({"cpu": "400m", "memory": "512Mi", "example.com/dongle": 1}), replicas=4)
        assert workload.exceeds(larger, ADMITTED, "m1") == [
            Excess("replicas", parse(4), parse(3)),
            Excess("cpu", parse("400m"), parse("100m")),
            Excess("example.com/dongle", parse(1), parse(0)),
        ]

    def test_a_workload_scaled_up_from_nothing_is_seen_though_its_binding_says_nothing_of_replicas(self) -> None:
        idle = replace(ADMITTED, request=NOTHING, replicas=0, clusters=(ClusterShare("m1", 0),))
        assert [excess.resource for excess in workload.exceeds(deployment(replicas=5), idle, "m1")] == ["replicas"]
        assert workload.exceeds(deployment(replicas=0), idle, "m1") == []

    def test_a_workload_behind_another_kinds_binding_is_seen(self) -> None:
        config = replace(ADMITTED, template=TemplateRef("v1", "ConfigMap", "a", "b"), request=NOTHING, replicas=0)
        config = replace(config, clusters=(ClusterShare("m1", 0),))
        assert workload.exceeds(deployment(SAME), config, "m1")

    @pytest.mark.parametrize(
        "manifest",
        [
            of_kind("v1", "ConfigMap", None),
            deployment(container({"cpu": "64"}), kind="DaemonSet"),
            of_kind("x.io/v1", "Thing", {"replicas": 9, "template": {"spec": {"containers": [container({"cpu": 9})]}}}),
        ],
    )
    def test_kinds_that_cost_their_object_pass(self, manifest: dict[str, Any]) -> None:
        assert workload.exceeds(manifest, replace(ADMITTED, request=NOTHING, replicas=0), "m1") == []

    def test_a_kind_that_karmada_was_taught_is_held_to_the_same(self) -> None:
        spec = {"replicas": 4, "template": {"spec": {"containers": [container({"cpu": "1"})]}}}
        manifest = of_kind("apps.kruise.io/v1alpha1", "CloneSet", spec)
        assert [excess.resource for excess in workload.exceeds(manifest, ADMITTED, "m1")] == ["replicas", "cpu"]
        del spec["replicas"]
        assert [excess.resource for excess in workload.exceeds(manifest, ADMITTED, "m1")] == ["cpu"]

    def test_where_nothing_can_be_worked_out_nothing_is_held_against_it(self) -> None:
        spec = {"replicas": 400, "jobManager": {"resource": {"cpu": 400}}}
        assert workload.exceeds(of_kind("flink.apache.org/v1beta1", "FlinkDeployment", spec), ADMITTED, "m1") == []

    def test_of_components_each_template_is_held_to_the_largest(self) -> None:
        admitted = replace(
            ADMITTED,
            request=NOTHING,
            replicas=0,
            clusters=(ClusterShare("m1", 0),),
            components=(
                Component("ps", 1, Resources.parse({"cpu": "1", "memory": "4Gi"})),
                Component("worker", 2, Resources.parse({"cpu": "2", "memory": "1Gi"})),
            ),
        )

        def training(cpu: str) -> dict[str, Any]:
            parts = {
                "PS": {"replicas": 1, "template": {"spec": {"containers": [container({"cpu": "1", "memory": "4Gi"})]}}},
                "Worker": {"replicas": 9, "template": {"spec": {"containers": [container({"cpu": cpu})]}}},
            }
            return of_kind("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": parts, "tasks": [{"template": None}]})

        assert workload.exceeds(training("2"), admitted, "m1") == []
        assert workload.exceeds(training("3"), admitted, "m1") == [Excess("cpu", parse(3), parse(2))]

    def test_a_manifest_that_cannot_be_read_does_not_pass(self) -> None:
        with pytest.raises(WorkloadError):
            workload.exceeds(deployment(container({"cpu": "-5"}), container({"cpu": "5"})), ADMITTED, "m1")

    @given(replicas=st.integers(0, 9), cpu=st.integers(0, 300), cluster=st.sampled_from(["m1", "m2", "m3", "m9"]))
    def test_it_passes_exactly_what_is_not_more(self, replicas: int, cpu: int, cluster: str) -> None:
        manifest = deployment(container({"cpu": f"{cpu}m"}), replicas=replicas)
        fits = replicas <= {"m1": 3, "m2": 2, "m3": 4, "m9": 0}[cluster] and cpu <= 100
        assert (workload.exceeds(manifest, ADMITTED, cluster) == []) is fits


class TestMayHavePods:
    @pytest.mark.parametrize(
        ("api_version", "kind"),
        [
            ("v1", "Pod"),
            ("v1", "ReplicationController"),
            ("apps/v1", "DaemonSet"),
            ("batch/v1", "CronJob"),
            ("argoproj.io/v1alpha1", "Rollout"),
            ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        ],
    )
    def test_what_has_a_pod_template_or_could_have_one(self, api_version: str, kind: str) -> None:
        assert workload.may_have_pods(TemplateRef(api_version, kind, "a", "b"))

    @pytest.mark.parametrize(
        ("api_version", "kind"),
        [
            ("v1", "Secret"),
            ("v1", "ConfigMap"),
            ("v1", "Service"),
            ("policy/v1", "PodDisruptionBudget"),
            ("autoscaling/v2", "HorizontalPodAutoscaler"),
            ("networking.k8s.io/v1", "Ingress"),
            ("rbac.authorization.k8s.io/v1", "Role"),
        ],
    )
    def test_what_kubernetes_has_without_pods(self, api_version: str, kind: str) -> None:
        assert not workload.may_have_pods(TemplateRef(api_version, kind, "a", "b"))
