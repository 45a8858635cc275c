"""Is the process alive, is it ready? Named checks, each of which says why not; shared by every listener.

`/livez` fails only where nothing but a restart helps. `/readyz` fails while the process should not be sent work, and
names in its body every check that stands in the way.
"""

from collections.abc import Callable, Mapping

from aiohttp import web

Check = Callable[[], str]
"""Why not; empty where all is well. Asked on the event loop: it must be quick."""

# Every request that work waits for has a timeout of its own, half a minute at most: what takes this long hangs.
STUCK_SECONDS = 180.0


class Health:
    """The health of one process."""

    def __init__(self, *, ready: Mapping[str, Check], live: Mapping[str, Check]) -> None:
        self._ready = {"draining": self._why_draining, **ready}
        self._live = dict(live)
        self.is_draining = False

    def drain(self) -> None:
        """From now on nothing more should come."""
        self.is_draining = True

    def why_not_ready(self) -> dict[str, str]:
        """The checks that fail, and why."""
        return failing(self._ready)

    def why_not_live(self) -> dict[str, str]:
        """The checks that fail, and why."""
        return failing(self._live)

    def routes(self) -> list[web.RouteDef]:
        """For a listener of aiohttp's."""
        return [web.get("/livez", self._answer_live), web.get("/readyz", self._answer_ready)]

    async def _answer_live(self, _request: web.Request) -> web.Response:
        return _answer(self.why_not_live())

    async def _answer_ready(self, _request: web.Request) -> web.Response:
        return _answer(self.why_not_ready())

    def _why_draining(self) -> str:
        return "this process was asked to end" if self.is_draining else ""


def not_stuck(busy_seconds: Callable[[], float]) -> Check:
    """A check that work which is under way has not been for too long."""

    def check() -> str:
        seconds = busy_seconds()
        return f"the same work has been under way for {seconds:.0f} s" if seconds > STUCK_SECONDS else ""

    return check


def failing(checks: Mapping[str, Check]) -> dict[str, str]:
    """Those that fail, and why."""
    return {name: why for name, check in checks.items() if (why := check())}


def _answer(failing: Mapping[str, str]) -> web.Response:
    text = "\n".join(f"{name}: {why}" for name, why in failing.items())
    return web.Response(text=text or "ok", status=503 if failing else 200)
