"""What a hook answers, and how that is said to an API server.

Here lives the AdmissionReview envelope of an answer. Reading a review is `federation_quota.kube.codec`'s; what to
answer is each kind's own module.
"""

import base64
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from federation_quota.kube import codec
from federation_quota.ledger.denial import Denial

QUOTA_EXCEEDED: Final = "QuotaExceeded"

# The API server shows warnings of up to this length in full, and cuts longer ones.
_LONGEST_WARNING: Final = 256


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one review."""

    is_allowed: bool = True
    code: int = 200
    reason: str = ""
    message: str = ""
    causes: tuple[dict[str, str], ...] = ()
    retry_after_seconds: int | None = None
    warnings: tuple[str, ...] = ()
    patch: tuple[dict[str, Any], ...] = field(default=())
    denial: Denial | None = None  # where a quota refused it: for the log


ALLOWED: Final = Verdict()


def refuse(code: int, reason: str, message: str) -> Verdict:
    """A refusal, in Kubernetes' terms."""
    return Verdict(is_allowed=False, code=code, reason=reason, message=message)


def exceeded(denial: Denial) -> Verdict:
    """A quota's refusal."""
    return Verdict(
        is_allowed=False,
        code=403,
        reason=QUOTA_EXCEEDED,
        message=denial.message,
        causes=tuple(denial.causes),
        denial=denial,
    )


def later(message: str, retry_after_seconds: int = 1) -> Verdict:
    """No decision in time: clients come again by themselves."""
    return Verdict(
        is_allowed=False,
        code=429,
        reason="TooManyRequests",
        message=message,
        retry_after_seconds=retry_after_seconds,
    )


def encode(uid: str, verdict: Verdict) -> bytes:
    """The AdmissionReview that answers the review of that uid."""
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.is_allowed}
    if not verdict.is_allowed:
        status: dict[str, Any] = {
            "status": "Failure",
            "code": verdict.code,
            "reason": verdict.reason,
            "message": verdict.message,
        }
        details: dict[str, Any] = {}
        if verdict.causes:
            details["causes"] = list(verdict.causes)
        if verdict.retry_after_seconds is not None:
            details["retryAfterSeconds"] = verdict.retry_after_seconds
        if details:
            status["details"] = details
        response["status"] = status
    if verdict.warnings:
        response["warnings"] = [warning[:_LONGEST_WARNING] for warning in verdict.warnings]
    if verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(list(verdict.patch))).decode()
    return msgspec.json.encode({"apiVersion": codec.REVIEW_VERSION, "kind": "AdmissionReview", "response": response})
