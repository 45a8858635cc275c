"""What can go wrong between us and an API server, as types.

Two families. `ApiError`: the server answered, and this is its Status. `NoAnswerError`: it did not, and for a write that
was sent nobody knows whether it was carried out. Nothing here decides what to do about either; nothing here carries
credentials or bodies.
"""

import datetime
import email.utils
from dataclasses import dataclass

import msgspec


class KubeError(Exception):
    """Anything that went wrong while talking to an API server."""


class CredentialsError(KubeError):
    """There is no identity to speak with: a kubeconfig, a token file or an exec plugin that does not work."""


class NoAnswerError(KubeError):
    """No answer: not connected, cut off, or out of time."""

    def __init__(self, message: str, *, was_sent: bool = True, is_permanent: bool = False) -> None:
        super().__init__(message)
        self.was_sent = was_sent  # False: the server cannot have seen it
        self.is_permanent = is_permanent  # trying again will not help: a certificate that does not verify


class SilenceError(NoAnswerError):
    """A stream on which nothing came for too long: a dead peer, or a resource to which nothing happens."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `status.details.causes`."""

    reason: str = ""
    message: str = ""
    field: str = ""


class ApiError(KubeError):
    """The server's answer was a refusal."""

    code: int
    reason: str
    message: str
    causes: tuple[Cause, ...]
    retry_after_seconds: float | None  # the server says: not carried out, try again then

    def __init__(
        self,
        code: int,
        reason: str = "",
        message: str = "",
        *,
        causes: tuple[Cause, ...] = (),
        retry_after_seconds: float | None = None,
        request: str = "",
    ) -> None:
        super().__init__(f"{request}: {code} {reason}: {message}" if request else f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after_seconds = retry_after_seconds


class UnauthorizedError(ApiError):
    """401: the credentials were refused."""


class ForbiddenError(ApiError):
    """403: not allowed, or refused by an admission webhook (then `reason` is the webhook's own)."""


class NotFoundError(ApiError):
    """404: no such object, or no such resource."""


class ConflictError(ApiError):
    """409: the object has changed meanwhile. It may be this client's own write, whose answer was lost."""


class AlreadyExistsError(ApiError):
    """409 on a creation: the name is taken."""


class GoneError(ApiError):
    """410: that resourceVersion, or that page of a list, is no longer kept."""


class InvalidError(ApiError):
    """422: the object does not pass validation; `causes` says where."""


class TooManyRequestsError(ApiError):
    """429: not carried out; come back later."""


_BY_CODE: dict[int, type[ApiError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}


class _Details(msgspec.Struct):
    causes: list[dict[str, object]] | None = None
    retry_after: int | None = msgspec.field(default=None, name="retryAfterSeconds")


class _Status(msgspec.Struct):
    kind: str = ""
    code: int | None = None
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_DECODER = msgspec.json.Decoder(_Status)
_LONGEST_TEXT = 300


def from_answer(code: int, body: bytes, *, retry_after: str | None = None, request: str = "") -> ApiError:
    """The error that an answer (or an ERROR event of a watch) stands for, whatever its body is like."""
    try:
        status = _DECODER.decode(body)
    except msgspec.MsgspecError:
        status = _Status()
    if status.kind != "Status":  # a proxy's page, or plain text
        text = body[:_LONGEST_TEXT].decode(errors="replace").strip()
        return _build(code, "", text, (), _seconds(retry_after), request)
    details = status.details or _Details()
    causes = tuple(
        Cause(str(cause.get("reason", "")), str(cause.get("message", "")), str(cause.get("field", "")))
        for cause in details.causes or []
    )
    after = _seconds(retry_after)
    if after is None and details.retry_after:
        after = float(details.retry_after)
    return _build(status.code or code, status.reason, status.message, causes, after, request)


def _build(
    code: int, reason: str, message: str, causes: tuple[Cause, ...], after: float | None, request: str
) -> ApiError:
    kind = AlreadyExistsError if reason == "AlreadyExists" else _BY_CODE.get(code, ApiError)
    return kind(code, reason, message, causes=causes, retry_after_seconds=after, request=request)


def _seconds(retry_after: str | None) -> float | None:
    """A Retry-After header, in seconds or as a date."""
    if not retry_after:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.datetime.now(datetime.UTC)).total_seconds())
