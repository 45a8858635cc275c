"""Calls of validators: each with a time limit, and none in the way of another.

Each has a thread of its own (`call`): a pool would be empty once as many hang as it has. Who is cut off is told to
stop, and left alone: its tenant waits until it comes back, and nobody else. What it says after its limit is not heard.
So many calls are under way at once; beyond that tenants take turns, because each has only one request at the head of
its line and goes to the end of this one after every answer.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn, Protocol

import structlog

from federation_quota import metrics
from federation_quota.validators import Context, Decision, Request, Tenant, Validator, decision
from federation_quota.validators.registry import ValidatorError
from webhook.call import Call, Over

log = structlog.get_logger()

MOST_AT_ONCE: Final = 256
START_SECONDS: Final = 30.0
# How long what was told to stop may take for tidying up, before it is left alone.
_STOP_SECONDS: Final = 0.1


class UnheardError(Exception):
    """A validator gave no answer; the text says which, and why, for people."""


class Begun(Protocol):
    """A call that is under way."""

    @property
    def over(self) -> Over:
        """What came of it."""

    def stop(self) -> bool:
        """Nobody waits for it any more; whether it could be told so."""


async def start(validator: Validator, context: Context, *, limit_seconds: float = START_SECONDS) -> None:
    """Start it; ValidatorError where it does not. What it leaves running on its event loop goes on."""
    call = Call(validator.name, validator.start, context, is_lasting=True)
    try:
        await asyncio.wait({call.over}, timeout=limit_seconds)
        if not call.over.done():
            raise ValidatorError(f"validator {validator.name!r} did not start within {limit_seconds:g} s")
        call.over.result()
    except ValidatorError:
        raise
    except Exception as problem:
        raise ValidatorError(
            f"validator {validator.name!r} did not start: {type(problem).__name__}: {problem}"
        ) from None
    finally:
        if not call.over.done():
            call.stop()


class Calls:
    """The calls of one replica."""

    def __init__(
        self,
        limit_seconds: float,
        most: int = MOST_AT_ONCE,
        begin: Callable[..., Begun] = Call,  # elsewhere only where time is simulated, and threads have none
    ) -> None:
        self.limit_seconds = limit_seconds
        self._slots = asyncio.Semaphore(most)
        self._begin = begin

    async def ask(
        self,
        validator: Validator,
        request: Request,
        tenant: Tenant,
        *,
        deadline: float,
        abandon: Callable[[Over], None],  # told of a call that goes on although nobody waits for it any more
    ) -> Decision:
        """What the validator decides; UnheardError where it does not, in time or at all."""
        name = validator.name
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise UnheardError(f"validator {name}: too many tenants are asked about at once") from None
        try:
            began = loop.time()
            limit = min(self.limit_seconds, deadline - began)
            call = self._begin(name, _validate, validator, request, tenant)
            is_in_time = False
            try:
                await asyncio.wait({call.over}, timeout=limit)
                is_in_time = call.over.done()
            finally:
                if not call.over.done():
                    await self._cut_off(name, call, abandon)
            metrics.validator_seconds.labels(name).observe(loop.time() - began)
            return _answer(name, call.over) if is_in_time else _silence(name, limit)
        finally:
            self._slots.release()

    async def _cut_off(self, name: str, call: Begun, abandon: Callable[[Over], None]) -> None:
        is_told = call.stop()
        abandon(call.over)
        gauge = metrics.validator_hanging.labels(name)
        gauge.inc()
        call.over.add_done_callback(lambda _: gauge.dec())
        if is_told:
            await asyncio.wait({call.over}, timeout=_STOP_SECONDS)


def _validate(validator: Validator, request: Request, tenant: Tenant) -> object:
    return validator.validate(request, tenant)  # looked up in the thread as well: whatever fails is the call's


def _silence(name: str, limit: float) -> NoReturn:
    log.warning("validator.cut_off", validator=name, limit_seconds=round(limit, 3))
    metrics.validator_answers.labels(name, "cut-off").inc()
    raise UnheardError(f"validator {name} did not answer within {limit:.1f} s")


def _answer(name: str, over: Over) -> Decision:
    answers = metrics.validator_answers
    try:
        found = decision.checked(over.result())
    except Exception as problem:
        log.error("validator.failed", validator=name, problem=repr(problem), exc_info=problem)
        answers.labels(name, "failed").inc()
        raise UnheardError(f"validator {name} failed: federation-quota's log says why") from None
    answers.labels(name, "allowed" if found.allowed else "refused").inc()
    return found
