"""Bindings and lists of them, from bytes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.binding import ClusterShare, Component, ObjectKey, TemplateRef
from federation_quota.charge import Tariff
from federation_quota.kube import codec
from federation_quota.kube.codec import CodecError
from federation_quota.resources import NOTHING, Resources
from federation_quota.stamp import NO_STAMP
from tests.unit.documents import BINDING, STAMP, changed, encode

FIELDS = [
    "metadata",
    "metadata/labels",
    "metadata/annotations",
    "metadata/uid",
    "spec",
    "spec/clusters",
    "spec/replicas",
    "spec/placement",
    "spec/replicaRequirements",
    "spec/replicaRequirements/resourceRequest",
    "spec/components",
    "spec/gracefulEvictionTasks",
    "spec/requiredBy",
    "spec/suspension",
    "status",
    "status/aggregatedStatus",
    "status/conditions",
]


class TestBinding:
    def test_a_stored_one_is_read_whole(self) -> None:
        binding = codec.decode_binding(encode(BINDING))
        assert binding.key == ObjectKey("team-a", "web-deployment")
        assert binding.uid == "9f8b1c1e-4a1e-4d7b-9d5c-0f3f4f0e7a11"
        assert binding.version == 4711
        assert binding.template == TemplateRef("apps/v1", "Deployment", "team-a", "web", "t1", 4700)
        one: dict[str, str | int] = {"cpu": "250m", "memory": "1Gi", "example.com/dongle": 1}
        assert binding.request == Resources.parse(one)
        each = Resources.parse({**one, "pods": 1})
        object_count = Resources.parse({"count/deployments.apps": 1})
        assert binding.demand == each * 5 + object_count
        assert binding.assigned == each * 4 + object_count
        assert binding.replicas == 5
        assert binding.clusters == (ClusterShare("m1", 3), ClusterShare("m2", 1))
        assert binding.stamp == STAMP
        assert binding.created == "2026-08-01T10:00:00Z"
        flags = (binding.is_held, binding.is_suspended, binding.is_deleting, binding.is_preserved)
        assert flags == (False, False, False, False)
        assert binding.is_preemptible
        assert (binding.scheduled_reason, binding.fault, binding.evicted, binding.components) == ("", "", (), ())

    def test_the_least_that_a_review_may_hold(self) -> None:
        least = {
            "metadata": {"name": "x", "creationTimestamp": None, "labels": None, "annotations": None},
            "spec": {
                "resource": {"apiVersion": "v1", "kind": "Secret", "name": "x"},
                "clusters": None,
                "replicaRequirements": {"resourceRequest": None},
                "suspension": None,
                "placement": {"replicaScheduling": None, "spreadConstraints": None},
                "gracefulEvictionTasks": None,
                "requiredBy": None,
                "components": None,
            },
            "status": {"conditions": None, "aggregatedStatus": None},
        }
        binding = codec.decode_binding(encode(least))
        assert (binding.version, binding.uid, binding.created, binding.stamp) == (0, "", "", NO_STAMP)
        assert binding.demand == Resources.parse({"count/secrets": 1})
        assert binding.assigned == NOTHING

    @pytest.mark.parametrize(
        ("suspension", "label", "is_suspended", "is_held"),
        [
            ({"scheduling": True}, "true", True, True),
            ({"scheduling": True}, None, True, False),
            ({"scheduling": True}, "false", True, False),
            ({"scheduling": False}, "true", False, False),
            ({"dispatching": True}, "true", False, False),
            (None, "true", False, False),
        ],
    )
    def test_held_is_suspended_and_marked(
        self, suspension: object, label: str | None, is_suspended: bool, is_held: bool
    ) -> None:
        document = changed("spec/suspension", suspension)
        if label:
            document = changed("metadata/labels", {"quota.karmada.io/held": label}, document)
        binding = codec.decode_binding(encode(document))
        assert (binding.is_suspended, binding.is_held) == (is_suspended, is_held)

    @pytest.mark.parametrize(
        ("path", "value", "field", "expected"),
        [
            ("metadata/deletionTimestamp", "2026-08-01T11:00:00Z", "is_deleting", True),
            ("spec/preserveResourcesOnDeletion", True, "is_preserved", True),
            ("metadata/labels", {"quota.karmada.io/preemptible": "false"}, "is_preemptible", False),
            ("metadata/labels", {"quota.karmada.io/preemptible": "true"}, "is_preemptible", True),
            (
                "status/conditions",
                [{"type": "Scheduled", "status": "False", "reason": "QuotaExceeded"}],
                "scheduled_reason",
                "QuotaExceeded",
            ),
            ("spec/gracefulEvictionTasks", [{"fromCluster": "m9", "replicas": 1}], "evicted", (ClusterShare("m9", 1),)),
            ("spec/resource/resourceVersion", "opaque", "fault", ""),
        ],
    )
    def test_single_fields(self, path: str, value: object, field: str, expected: object) -> None:
        assert getattr(codec.decode_binding(encode(changed(path, value))), field) == expected

    def test_an_unreadable_stamp_is_told_and_the_binding_still_counts(self) -> None:
        binding = codec.decode_binding(encode(changed("metadata/annotations", {"quota.karmada.io/stamp": "{"})))
        assert binding.stamp.fault
        assert "cpu" in binding.demand
        assert "count/deployments.apps" in binding.demand

    def test_components_with_and_without_numbers_of_a_clusters_own(self) -> None:
        components = [
            {"name": "jm", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
            {"name": "tm", "replicas": 2, "replicaRequirements": {"nodeClaim": {}}},
        ]
        document = changed("spec/components", components)
        clusters = [{"name": "m1", "components": [{"name": "jm", "replicas": 1}]}, {"name": "m2", "components": []}]
        binding = codec.decode_binding(encode(changed("spec/clusters", clusters, document)))
        assert binding.components == (Component("jm", 1, Resources.parse({"cpu": 1})), Component("tm", 2, NOTHING))
        assert (binding.assigned["cpu"].whole(), binding.assigned["pods"].whole()) == (2, 4)
        assert binding.clusters == (ClusterShare("m1", 0, (("jm", 1),)), ClusterShare("m2", 0))

    @pytest.mark.parametrize(
        ("placement", "assigned"),
        [
            (None, 5),
            ({}, 5),
            ({"replicaScheduling": {"replicaSchedulingType": "Divided"}, "spreadConstraints": [{"minGroups": 2}]}, 5),
            (
                {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}, "spreadConstraints": [{"minGroups": 2}]},
                10,
            ),
            ({"spreadConstraints": [{"spreadByField": "region", "minGroups": 2}, {"maxGroups": 1}]}, 10),
        ],
    )
    def test_what_must_come_back_after_an_eviction_stands_in_the_placement(
        self, placement: object, assigned: int
    ) -> None:
        document = changed("spec/placement", placement)
        document = changed("spec/clusters", [{"name": "m1", "replicas": 5}] if assigned == 10 else [], document)
        document = changed("spec/gracefulEvictionTasks", [{"fromCluster": "m9", "replicas": 5}], document)
        assert codec.decode_binding(encode(document)).assigned["pods"].whole() == assigned

    @pytest.mark.parametrize(("clusters", "count"), [([{"name": "m1", "replicas": 9}], 1), ([], 0), (None, 0)])
    def test_a_dependency_is_where_something_needs_it(self, clusters: object, count: int) -> None:
        required_by = [{"namespace": "a", "name": "b", "clusters": clusters}]
        document = changed("spec/requiredBy", required_by, changed("spec/clusters", ...))
        assigned = codec.decode_binding(encode(document)).assigned
        assert assigned == Resources.parse({"count/deployments.apps": count})

    @pytest.mark.parametrize(
        ("statuses", "is_finished"),
        [
            ([("m1", [("Complete", "True")]), ("m2", [("Failed", "True")])], True),
            ([("m1", [("SuccessCriteriaMet", "True"), ("Complete", "True")]), ("m2", [("Complete", "True")])], True),
            ([("m1", [("Complete", "True")]), ("m2", [("Complete", "False")])], False),
            ([("m1", [("Complete", "True")]), ("m2", [("Suspended", "True")])], False),
            ([("m1", [("Complete", "True")])], False),
            ([("m1", [("Complete", "True")]), ("m2", None)], False),
            ([], False),
        ],
    )
    def test_a_job_that_has_ended_everywhere_costs_its_object(self, statuses: list[Any], is_finished: bool) -> None:
        document = changed("spec/resource", {"apiVersion": "batch/v1", "kind": "Job", "name": "j"})
        document = changed("spec/replicas", 4, document)
        items = [
            {
                "clusterName": name,
                "status": conditions and {"conditions": [{"type": t, "status": s} for t, s in conditions]},
            }
            for name, conditions in statuses
        ]
        binding = codec.decode_binding(encode(changed("status/aggregatedStatus", items, document)))
        assert ("cpu" not in binding.charge) is is_finished

    def test_the_tariff_is_the_callers(self) -> None:
        document = changed("spec/replicaRequirements/resourceRequest", {"nvidia.com/gpu": "1"})
        binding = codec.decode_binding(encode(document), Tariff(gigabytes_per_gpu=80))
        assert binding.demand["quota.karmada.io/gpu-memory"].whole() == 400

    @pytest.mark.parametrize("number", [-1, 2**31, 2**70])
    def test_numbers_that_make_no_cost_are_a_fault_not_an_error(self, number: int) -> None:
        binding = codec.decode_binding(encode(changed("spec/replicas", number)))
        assert f"spec.replicas: {number} is no number of replicas" in binding.fault
        assert binding.assigned["pods"].whole() == 4

    def test_equal_bindings_share_what_they_hold(self) -> None:
        first, second = (codec.decode_binding(encode(changed("metadata/name", name))) for name in ("a", "b"))
        for field in ("demand", "assigned", "request", "stamp"):
            assert getattr(first, field) is getattr(second, field)
        assert first.clusters[0] is second.clusters[0]
        assert first.key.namespace is second.key.namespace

    @pytest.mark.parametrize(
        ("path", "value", "field"),
        [
            ("spec/replicas", "5", r"\$\.spec\.replicas"),
            ("spec/replicas", True, r"\$\.spec\.replicas"),
            ("spec/replicas", 1.5, r"\$\.spec\.replicas"),
            ("spec/clusters", {"m1": 1}, r"\$\.spec\.clusters"),
            ("spec/clusters", [{"replicas": 1}], r"name.*\$\.spec\.clusters"),
            ("spec/resource", ..., "resource"),
            ("spec", ..., "spec"),
            ("spec/replicaRequirements/resourceRequest", {"cpu": 1.5}, "resourceRequest"),
            ("spec/replicaRequirements/resourceRequest", {"cpu": None}, "resourceRequest"),
            ("spec/suspension", {"scheduling": "true"}, "scheduling"),
        ],
    )
    def test_what_is_of_another_type_is_told_by_object_and_field(self, path: str, value: object, field: str) -> None:
        body = encode(changed(path, value))
        with pytest.raises(CodecError, match=rf"^ResourceBinding team-a/web-deployment: .*{field}"):
            codec.decode_binding(body)
        stored = codec.decode_stored_binding(body)
        assert (stored.key, stored.version) == (ObjectKey("team-a", "web-deployment"), 4711)
        assert stored.fault.startswith("ResourceBinding team-a/web-deployment: ")
        assert stored.demand == stored.assigned == NOTHING

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"null",
            b"[]",
            b"5",
            b'{"metadata":{}}',
            b'{"metadata":null}',
            b'{"metadata":{"name":5}}',
            b'{"metadata":{"name":"\xff"}}',
            b"\xff\xfe",
            b"[" * 200_000,
            b'{"metadata":' + b"[" * 200_000,
            b'{"other":' + b"[" * 200_000,
        ],
    )
    def test_what_is_nothing_is_an_error(self, body: bytes) -> None:
        for decode in (codec.decode_binding, codec.decode_stored_binding):
            with pytest.raises(CodecError, match=r"^ResourceBinding"):
                decode(body)

    @pytest.mark.parametrize("version", ["x", "1.5", "-1", "٣", "9" * 30])
    def test_versions_are_numbers(self, version: str) -> None:
        with pytest.raises(CodecError, match=r"resourceVersion: .* is not a number"):
            codec.decode_binding(encode(changed("metadata/resourceVersion", version)))

    @given(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
            max_leaves=6,
        ),
        st.sampled_from(FIELDS),
    )
    def test_whatever_stands_in_a_field_nothing_but_a_codec_error_comes_out(self, value: object, path: str) -> None:
        body = encode(changed(path, value))
        try:
            binding = codec.decode_stored_binding(body)
        except CodecError:
            assert path.startswith("metadata")
        else:
            assert binding.key.name == "web-deployment" or path == "metadata"
