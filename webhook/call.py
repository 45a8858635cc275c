"""One call of a validator, in a thread that is made for it: whatever it does there, it holds nobody else.

What it gives to be awaited is awaited in that same thread, on an event loop of the call's own. On one that calls share,
the first that blocks would hold all others, and could not even be cancelled.

There is no way to end a thread. Who is told to stop and does not is left alone, and is over when it comes back, with
everything that it has begun: its tasks are cancelled, and its threads waited for.
"""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any

Over = asyncio.Future[Any]


class Call:
    """Begun when it is made, on the loop of who asks."""

    def __init__(
        self,
        name: str,
        method: Callable[..., Any],
        *arguments: object,
        is_lasting: bool = False,  # its event loop goes on afterwards, with the tasks that it left there
    ) -> None:
        self.over: Over = asyncio.get_running_loop().create_future()
        """What came of it, on that loop."""
        self._is_lasting = is_lasting
        self._is_stopped = False
        self._task: asyncio.Task[Any] | None = None
        run = contextvars.copy_context().run
        thread = threading.Thread(
            target=run, args=(self._run, method, *arguments), name=f"validator {name}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as problem:  # there are as many as the system allows
            self.over.set_exception(problem)

    def stop(self) -> bool:
        """Nobody waits for it any more; whether it could be told so. What it awaits can be, what it runs cannot."""
        self.over.add_done_callback(lambda over: over.cancelled() or over.exception())  # nobody else asks for it
        # In this order, and in the thread the other way round: one of the two sees what the other did.
        self._is_stopped = True
        task = self._task
        if task is None:
            return False
        with contextlib.suppress(RuntimeError):  # its loop has ended meanwhile
            task.get_loop().call_soon_threadsafe(task.cancel)
        return True

    def _run(self, method: Callable[..., Any], *arguments: object) -> None:
        try:
            found = method(*arguments)
            self._report(self._awaited(found) if inspect.isawaitable(found) else found)
        except BaseException as problem:  # whatever it is, it is the call's
            self._report(None, problem)

    def _awaited(self, found: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever it comes to
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            self._task = loop.create_task(found if inspect.iscoroutine(found) else _coroutine(found))
            if self._is_stopped:
                self._task.cancel()
            result = loop.run_until_complete(self._task)
            if self._is_lasting:
                self._report(result)
                loop.run_forever()
        return result

    def _report(self, result: object, problem: BaseException | None = None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop of who asked has ended meanwhile
            self.over.get_loop().call_soon_threadsafe(self._end, result, problem)

    def _end(self, result: object, problem: BaseException | None) -> None:
        if self.over.done():
            return
        if problem is None:
            self.over.set_result(result)
        elif isinstance(problem, Exception) and not isinstance(problem, StopIteration):
            self.over.set_exception(problem)
        else:
            # A StopIteration cannot be raised into a future; and SystemExit must not end the replica.
            wrapped = RuntimeError(f"{type(problem).__name__}: {problem}")
            wrapped.__cause__ = problem
            self.over.set_exception(wrapped)


async def _coroutine(found: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever it comes to
    return await found
