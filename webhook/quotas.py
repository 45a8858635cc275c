"""Reviews of KarmadaQuotas: what may stand in one, and who may write its status."""

from collections.abc import Callable
from dataclasses import dataclass

from federation_quota import validation
from federation_quota.field_error import summarise
from federation_quota.kube import codec
from webhook.review import Verdict, refuse


@dataclass(frozen=True, slots=True)
class QuotaReview:
    """Validates quotas, and keeps their status the system's own."""

    is_system: Callable[[str], bool]

    async def __call__(self, request: codec.AdmissionRequest, deadline: float) -> Verdict:
        """Judge a CREATE or UPDATE of a quota, or of its status."""
        new = codec.decode_object(request.object)
        old = codec.decode_object(request.old_object) if request.operation == "UPDATE" else None
        if request.sub_resource == "status":
            if not self.is_system(request.user_info.username):
                return refuse(
                    403,
                    "Forbidden",
                    f"the status of a KarmadaQuota is written by federation-quota alone, not by "
                    f"{request.user_info.username!r}: change spec instead",
                )
            errors = validation.validate_status(new)
        else:
            errors = validation.validate(new, old)
        if errors:
            return Verdict(
                is_allowed=False,
                code=422,
                reason="Invalid",
                message=f'KarmadaQuota.quota.karmada.io "{request.name}" is invalid: {summarise(errors)}',
                causes=tuple(one.to_cause() for one in errors),
            )
        warnings = [] if request.sub_resource else validation.warnings(new, old)
        return Verdict(warnings=tuple(warnings))
