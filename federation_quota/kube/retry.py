"""Which failures of a request are tried again, when, and for how long.

Only what cannot have been done twice: what the server says it did not carry out (429, or any refusal with Retry-After),
what was never sent, and what does no harm when repeated. Never past the caller's deadline: where the next attempt would
come too late, the last error is the answer, at once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog
import tenacity

from federation_quota.kube.backoff import Backoff
from federation_quota.kube.error import ApiError, KubeError, NoAnswerError

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Policy:
    """How persistent a client is."""

    attempts: int = 5
    backoff: Backoff = field(default_factory=lambda: Backoff(first_seconds=0.1, most_seconds=5.0))
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(
        self,
        attempt: Callable[[], Awaitable[bytes]],
        what: str,
        *,
        is_idempotent: bool,
        deadline: float,  # by time.monotonic
    ) -> bytes:
        """The answer, or the error that is to stand; `what` names the request in logs."""
        try:
            return await attempt()
        except KubeError as raised:
            if not is_repeatable(raised, is_idempotent):
                raise
            failed: KubeError | None = raised

        async def again() -> bytes:
            nonlocal failed
            if failed:  # the first attempt: most requests succeed, and are spared tenacity's 80 microseconds
                first, failed = failed, None
                raise first
            return await attempt()

        return await self._retrying(what, is_idempotent, deadline)(again)

    def _retrying(self, what: str, is_idempotent: bool, deadline: float) -> tenacity.AsyncRetrying:
        def is_over(state: tenacity.RetryCallState) -> bool:
            return state.attempt_number >= self.attempts or time.monotonic() + state.upcoming_sleep >= deadline

        def report(state: tenacity.RetryCallState) -> None:
            delay = round(state.upcoming_sleep, 3)
            log.debug("client.retrying", request=what, attempt=state.attempt_number, delay_seconds=delay)

        return tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(lambda raised: is_repeatable(raised, is_idempotent)),
            wait=self._delay_seconds,
            stop=is_over,
            sleep=self.sleep,
            before_sleep=report,
            reraise=True,
        )

    def _delay_seconds(self, state: tenacity.RetryCallState) -> float:
        """What the server asked for, spread a little so that not all return at one instant; else the backoff."""
        raised = state.outcome.exception() if state.outcome else None
        delay = self.backoff.delay(state.attempt_number)
        if isinstance(raised, ApiError) and raised.retry_after_seconds:
            return raised.retry_after_seconds + min(delay, raised.retry_after_seconds / 2)
        return delay


def is_repeatable(raised: BaseException, is_idempotent: bool) -> bool:
    """Whether the request may be sent again after that failure."""
    if isinstance(raised, NoAnswerError):
        return not raised.is_permanent and (is_idempotent or not raised.was_sent)
    if isinstance(raised, ApiError):
        if raised.code == 429 or raised.retry_after_seconds is not None:
            return True
        return is_idempotent and raised.code >= 500
    return False
