"""Answers as errors, whatever their bodies are like."""

import json

import pytest

from federation_quota.kube import error
from federation_quota.kube.resource import Resource


def body(code: int, reason: str, **details: object) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": "m", "details": details}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (401, "Unauthorized", error.UnauthorizedError),
        (403, "QuotaExceeded", error.ForbiddenError),
        (404, "NotFound", error.NotFoundError),
        (409, "Conflict", error.ConflictError),
        (409, "AlreadyExists", error.AlreadyExistsError),
        (410, "Expired", error.GoneError),
        (422, "Invalid", error.InvalidError),
        (429, "TooManyRequests", error.TooManyRequestsError),
        (500, "InternalError", error.ApiError),
    ],
)
def test_codes_and_reasons_are_types(code: int, reason: str, kind: type[error.ApiError]) -> None:
    raised = error.from_answer(code, body(code, reason), request="GET /x")
    assert type(raised) is kind
    assert (raised.code, raised.reason, raised.message) == (code, reason, "m")
    assert str(raised) == f"GET /x: {code} {reason}: m"


def test_causes_and_retry_after_are_kept() -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "bad", "field": "spec.x"}, {}]
    raised = error.from_answer(422, body(422, "Invalid", causes=causes, retryAfterSeconds=3))
    assert raised.causes == (error.Cause("FieldValueInvalid", "bad", "spec.x"), error.Cause())
    assert raised.retry_after_seconds == 3
    assert error.from_answer(429, b"", retry_after="7").retry_after_seconds == 7
    assert error.from_answer(429, b"", retry_after="Fri, 31 Dec 1999 23:59:59 GMT").retry_after_seconds == 0
    assert error.from_answer(429, b"", retry_after="soon").retry_after_seconds is None


@pytest.mark.parametrize(
    "odd", [b"", b"<html>\xff", b"[]", b"null", b'{"kind":"Status","code":"x"}', b'{"kind":"Pod"}']
)
def test_bodies_that_are_no_status_are_survived(odd: bytes) -> None:
    raised = error.from_answer(404, odd)
    assert isinstance(raised, error.NotFoundError)


def test_paths_of_objects_and_collections() -> None:
    pods = Resource("", "v1", "pods", "Pod")
    roles = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
    assert pods.collection(None) == "/api/v1/pods"
    assert pods.item("a", "n", "status") == "/api/v1/namespaces/n/pods/a/status"
    assert roles.item("system:x", None) == "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Ax"
    assert pods.item("a/../b", "n") == "/api/v1/namespaces/n/pods/a%2F..%2Fb"
