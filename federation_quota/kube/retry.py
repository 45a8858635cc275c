"""Which failures of a request are tried again, when, and for how long: as a tenacity policy.

Only what cannot have been done twice: what the server says it did not carry out (429, or any refusal with Retry-After),
what was never sent, and what does no harm when repeated. Never past the caller's deadline: where the next attempt would
come too late, the last error is the answer, at once.
"""

import time
from collections.abc import Awaitable, Callable

import structlog
import tenacity

from federation_quota.kube.backoff import Backoff
from federation_quota.kube.error import ApiError, NoAnswerError

log = structlog.get_logger()


def policy(
    what: str,
    *,
    is_idempotent: bool,
    attempts: int,
    backoff: Backoff,
    deadline: float,  # by time.monotonic
    sleep: Callable[[float], Awaitable[None]],
) -> tenacity.AsyncRetrying:
    """The policy of one call; `what` names it in logs."""

    def is_over(state: tenacity.RetryCallState) -> bool:
        return state.attempt_number >= attempts or time.monotonic() + state.upcoming_sleep >= deadline

    def report(state: tenacity.RetryCallState) -> None:
        delay = round(state.upcoming_sleep, 3)
        log.debug("client.retrying", request=what, attempt=state.attempt_number, delay_seconds=delay)

    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(lambda raised: is_repeatable(raised, is_idempotent)),
        wait=lambda state: delay_seconds(state.outcome.exception() if state.outcome else None, state, backoff),
        stop=is_over,
        sleep=sleep,
        before_sleep=report,
        reraise=True,
    )


def is_repeatable(raised: BaseException, is_idempotent: bool) -> bool:
    """Whether the request may be sent again after that failure."""
    if isinstance(raised, NoAnswerError):
        return not raised.is_permanent and (is_idempotent or not raised.was_sent)
    if isinstance(raised, ApiError):
        if raised.code == 429 or raised.retry_after_seconds is not None:
            return True
        return is_idempotent and raised.code >= 500
    return False


def delay_seconds(raised: BaseException | None, state: tenacity.RetryCallState, backoff: Backoff) -> float:
    """What the server asked for, spread a little so that not all return at one instant; else the backoff."""
    delay = backoff.delay(state.attempt_number)
    if isinstance(raised, ApiError) and raised.retry_after_seconds:
        return raised.retry_after_seconds + min(delay, raised.retry_after_seconds / 2)
    return delay
