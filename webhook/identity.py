"""The owner on a template: written here when it is created, and by nobody else.

A mutating review of the kinds with pods that people propagate. Whatever a client wrote into the annotation is
overwritten with who they are, as the API server reports it: who impersonates somebody creates in their name. What is
changed afterwards, by whomever, keeps the owner that it had. API servers ask about a change only where the annotation
differs.

The exceptions are for administrators to name, and there are none by default: those whose workloads have no owner, and
those who may say themselves whose a workload is, for what was there before this system, what is handed over, and what
is restored from a backup.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from federation_quota import identity
from federation_quota.identity import Identities, IdentityError
from federation_quota.kube import codec, wire
from federation_quota.stamp import OWNER_ANNOTATION
from webhook.review import ALLOWED, Verdict, refuse

_ANNOTATIONS: Final = "/metadata/annotations"
_ANNOTATION: Final = f"{_ANNOTATIONS}/{OWNER_ANNOTATION.replace('~', '~0').replace('/', '~1')}"


class _Metadata(wire.Shape):
    annotations: dict[str, str] | None = None


class _Template(wire.Shape):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_TEMPLATE: Final = msgspec.json.Decoder(_Template)


@dataclass(frozen=True, slots=True)
class IdentityReview:
    """Says whose a template is."""

    identities: Identities

    async def __call__(self, request: codec.AdmissionRequest, _deadline: float) -> Verdict:
        """The patch that has a new template say who created it, and a changed one what it said before."""
        annotations = _annotations(request.object)
        written = annotations.get(OWNER_ANNOTATION)
        is_update = request.operation == "UPDATE"
        before = _annotations(request.old_object).get(OWNER_ANNOTATION) if is_update else None
        user = request.user_info
        try:
            if user.username in self.identities.administrators and (is_update or written is not None):
                if written is not None and written != before:
                    identity.decode(written)  # nobody else looks at it before it counts
                return ALLOWED
            if is_update:
                return _patched(annotations, before)
            owner = self.identities.owner(user.username, user.groups)
        except IdentityError as problem:
            return refuse(403, "Forbidden", f"whose {request.name or 'this'} is cannot be written down: {problem}")
        return _patched(annotations, identity.encode(owner) if owner else None)


def _annotations(body: msgspec.Raw) -> dict[str, str]:
    try:
        return _TEMPLATE.decode(body).metadata.annotations or {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise codec.CodecError(f"not an object with metadata: {error}") from error


def _patched(annotations: dict[str, str], wanted: str | None) -> Verdict:
    """What makes the annotation say that; None: makes it go."""
    if annotations.get(OWNER_ANNOTATION) == wanted:
        return ALLOWED
    operation: dict[str, Any]
    if wanted is None:
        operation = {"op": "remove", "path": _ANNOTATION}
    elif annotations:
        operation = {"op": "add", "path": _ANNOTATION, "value": wanted}
    else:
        operation = {"op": "add", "path": _ANNOTATIONS, "value": {OWNER_ANNOTATION: wanted}}
    return Verdict(patch=(operation,))
