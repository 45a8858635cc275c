"""What bindings come in, from bytes: admission reviews, Works."""

from typing import Any

import pytest

from federation_quota.binding import ObjectKey
from federation_quota.kube import codec
from federation_quota.kube.codec import CodecError
from tests.unit.documents import BINDING, changed, encode

REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "r1",
        "kind": {"group": "work.karmada.io", "version": "v1alpha2", "kind": "ResourceBinding"},
        "resource": {"group": "work.karmada.io", "version": "v1alpha2", "resource": "resourcebindings"},
        "name": "web-deployment",
        "namespace": "team-a",
        "operation": "UPDATE",
        "userInfo": {"username": "system:admin", "groups": ["system:masters"], "extra": {"a": ["b"]}},
        "object": BINDING,
        "oldObject": BINDING,
        "dryRun": False,
        "options": {"kind": "UpdateOptions"},
    },
}


class TestReview:
    def test_a_request_is_read_and_its_objects_left_for_later(self) -> None:
        request = codec.decode_review(encode(REVIEW))
        assert (request.uid, request.operation, request.namespace, request.name) == (
            "r1",
            "UPDATE",
            "team-a",
            "web-deployment",
        )
        assert request.kind == codec.GroupVersionKind("work.karmada.io", "v1alpha2", "ResourceBinding")
        assert request.resource.resource == "resourcebindings"
        assert request.user_info == codec.UserInfo("system:admin", ("system:masters",))
        assert not request.dry_run
        assert codec.decode_binding(request.object) == codec.decode_binding(request.old_object)
        assert codec.decode_object(request.object) == BINDING

    def test_a_deletion_has_no_object(self) -> None:
        document = changed("request/object", None, changed("request/operation", "DELETE", REVIEW))
        request = codec.decode_review(encode(document))
        assert bytes(request.object) == b"null"
        assert codec.decode_binding(request.old_object).version == 4711

    def test_subresources_and_dry_run(self) -> None:
        document = changed("request/subResource", "status", changed("request/dryRun", True, REVIEW))
        request = codec.decode_review(encode(document))
        assert (request.sub_resource, request.dry_run) == ("status", True)

    @pytest.mark.parametrize(
        ("path", "value", "told"),
        [
            ("apiVersion", "admission.k8s.io/v1beta1", "v1beta1' is not an AdmissionReview of admission.k8s.io/v1"),
            ("kind", "Review", "Review of"),
            ("request", None, "no request"),
            ("request/uid", ..., "uid"),
            ("request/operation", 5, r"\$\.request\.operation"),
            ("request/kind", "Deployment", r"\$\.request\.kind"),
        ],
    )
    def test_any_other_review_is_an_error(self, path: str, value: object, told: str) -> None:
        with pytest.raises(CodecError, match=told):
            codec.decode_review(encode(changed(path, value, REVIEW)))

    def test_a_large_review_is_read(self) -> None:
        request = codec.decode_review(
            encode(changed("request/object/metadata/annotations/big", "x" * 10_000_000, REVIEW))
        )
        assert codec.decode_binding(request.object).demand == codec.decode_binding(request.old_object).demand


WORK: dict[str, Any] = {
    "metadata": {
        "name": "web-5bd5b5f7c9",
        "namespace": "karmada-es-m1",
        "annotations": {
            "resourcebinding.karmada.io/namespace": "team-a",
            "resourcebinding.karmada.io/name": "web-deployment",
        },
    },
    "spec": {"workload": {"manifests": [{"kind": "Deployment", "spec": {"replicas": 3, "x": 0.1}}]}},
}


class TestWork:
    def test_it_names_its_cluster_and_its_binding(self) -> None:
        work = codec.decode_work(encode(WORK))
        assert (work.cluster, work.binding) == ("m1", ObjectKey("team-a", "web-deployment"))
        assert work.key == ObjectKey("karmada-es-m1", "web-5bd5b5f7c9")
        assert not work.is_deleting

    def test_fractions_stay_as_they_were_written(self) -> None:
        assert codec.decode_work(encode(WORK)).manifests[0]["spec"] == {"replicas": 3, "x": "0.1"}

    def test_one_without_a_binding(self) -> None:
        work = codec.decode_work(encode(changed("metadata/annotations", None, WORK)))
        assert work.binding is None

    def test_one_on_its_way_out_and_empty(self) -> None:
        document = changed("metadata/deletionTimestamp", "2026-08-01T11:00:00Z", WORK)
        work = codec.decode_work(encode(changed("spec/workload", {}, document)))
        assert work.is_deleting
        assert work.manifests == ()

    def test_what_is_none_is_told(self) -> None:
        with pytest.raises(CodecError, match=r"^Work karmada-es-m1/web-5bd5b5f7c9: .*manifests"):
            codec.decode_work(encode(changed("spec/workload/manifests", ["x"], WORK)))
