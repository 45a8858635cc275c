"""Calls of validators: each with a time limit, and none in the way of another.

What is not `async` runs in a thread of its own, made for that call: a pool would be empty once as many hang as it has.
There is no way to end a thread. Who is cut off is left alone; its tenant waits until it comes back, and nobody else.
So many calls are under way at once; beyond that tenants take turns, because each has only one request at the head of
its line and goes to the end of this one after every answer.
"""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any, Final

import structlog

from federation_quota import metrics
from federation_quota.validators import Context, Decision, Request, Tenant, Validator
from federation_quota.validators.registry import ValidatorError

log = structlog.get_logger()

MOST_AT_ONCE: Final = 256
START_SECONDS: Final = 30.0
# How long a coroutine that was cancelled may take for tidying up.
_CANCEL_SECONDS: Final = 0.1

Call = asyncio.Future[Any]


class UnheardError(Exception):
    """A validator gave no answer; the text says which, and why, for people."""


async def start(validator: Validator, context: Context, *, limit_seconds: float = START_SECONDS) -> None:
    """Start it; ValidatorError where it does not."""
    call = _begin(validator.start, context)
    try:
        await asyncio.wait({call}, timeout=limit_seconds)
        if not call.done():
            raise ValidatorError(f"validator {validator.name!r} did not start within {limit_seconds:g} s")
        call.result()
    except ValidatorError:
        raise
    except Exception as problem:
        raise ValidatorError(
            f"validator {validator.name!r} did not start: {type(problem).__name__}: {problem}"
        ) from None
    finally:
        call.cancel()


class Calls:
    """The calls of one replica."""

    def __init__(self, limit_seconds: float, most: int = MOST_AT_ONCE) -> None:
        self.limit_seconds = limit_seconds
        self._slots = asyncio.Semaphore(most)

    async def ask(
        self,
        validator: Validator,
        request: Request,
        tenant: Tenant,
        *,
        deadline: float,
        abandon: Callable[[Call], None],  # told of a call that goes on although nobody waits for it any more
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
            call = _begin(validator.validate, request, tenant)
            try:
                await asyncio.wait({call}, timeout=limit)
            finally:
                if not call.done():
                    await self._cut_off(name, call, abandon)
            metrics.validator_seconds.labels(name).observe(loop.time() - began)
            return _answer(name, call, limit)
        finally:
            self._slots.release()

    async def _cut_off(self, name: str, call: Call, abandon: Callable[[Call], None]) -> None:
        if isinstance(call, asyncio.Task):
            call.cancel()
        abandon(call)
        gauge = metrics.validator_hanging.labels(name)
        gauge.inc()
        call.add_done_callback(lambda _: gauge.dec())
        call.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else asks for it
        if isinstance(call, asyncio.Task):
            await asyncio.wait({call}, timeout=_CANCEL_SECONDS)


def _answer(name: str, call: Call, limit: float) -> Decision:
    answers = metrics.validator_answers
    if not call.done() or call.cancelled():
        log.warning("validator.cut_off", validator=name, limit_seconds=round(limit, 3))
        answers.labels(name, "cut-off").inc()
        raise UnheardError(f"validator {name} did not answer within {limit:.1f} s")
    problem = call.exception()
    decision = None if problem else call.result()
    if not isinstance(decision, Decision):
        said = repr(problem) if problem else f"it returned {type(decision).__name__}, and no Decision"
        log.error("validator.failed", validator=name, problem=said, exc_info=problem)
        answers.labels(name, "failed").inc()
        raise UnheardError(f"validator {name} failed: federation-quota's log says why")
    answers.labels(name, "allowed" if decision.allowed else "refused").inc()
    return decision


def _begin(method: Callable[..., Any], *arguments: object) -> Call:
    if inspect.iscoroutinefunction(method):
        task: Call = asyncio.ensure_future(method(*arguments))
        return task
    loop = asyncio.get_running_loop()
    call: Call = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result, problem = context.run(method, *arguments), None
        except BaseException as raised:  # whatever it is, it is the call's
            result, problem = None, raised
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(_end, call, result, problem)

    threading.Thread(target=run, name=f"validator {method}", daemon=True).start()
    return call


def _end(call: Call, result: object, problem: BaseException | None) -> None:
    if call.done():
        return
    if problem is None:
        call.set_result(result)
    else:
        # A StopIteration cannot be raised into a future; and SystemExit must not end the replica.
        call.set_exception(RuntimeError(f"{type(problem).__name__}: {problem}"))
