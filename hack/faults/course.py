"""The course of a run: faults one after the other under load, each watched until it is recovered from."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence

from faults import checker
from faults.checker import Verdict, Window
from faults.fault import Fault, Scene
from faults.history import State
from faults.load import Load
from faults.recorder import Recorder
from faults.report import Outcome
from localfed.console import say
from localfed.errors import FederationError

# How many decisions in a row, in every namespace, show that it works again.
IN_A_ROW = 3
HEALTHY_SECONDS = 4.0
# Reservations whose requests died end 60 s later, and somebody has to look.
SETTLING_SECONDS = 150.0


class Course:
    """One run on one ground."""

    def __init__(self, scene: Scene, load: Load, healthy_seconds: float = HEALTHY_SECONDS) -> None:
        self.outcomes: list[Outcome] = []
        self.skipped: list[str] = []
        self._scene = scene
        self._load = load
        self._healthy_seconds = healthy_seconds
        self._recorder: Recorder = scene.recorder

    async def run(self, faults: Sequence[Fault], deadline: float = math.inf) -> None:
        """All of them, as far as the time goes."""
        self._load.resume()
        problem = await self._recovered(60.0)
        if problem:
            raise FederationError(f"it was never healthy: {problem}")
        for number, fault in enumerate(faults, 1):
            if time.monotonic() > deadline:
                self.skipped.append(fault.name)
                continue
            await self._fault(fault, f"{number}/{len(faults)}")
            await asyncio.sleep(self._healthy_seconds)
        await self._load.pause()

    async def settle(self) -> list[str]:
        """With nothing under way: what is still wrong when everything that ends by itself has ended."""
        await self._load.pause()
        return await self._until(checker.leaks, SETTLING_SECONDS)

    def verdict(self, leaks: list[str]) -> Verdict:
        """What the checker says of all of it."""
        windows = [one.window for one in self.outcomes]
        verdict = checker.judge(self._recorder.history, self._load.log.requests, windows)
        verdict.leaks = leaks
        return verdict

    async def _fault(self, fault: Fault, place: str) -> None:
        began = self._recorder.now()
        problem, ended_before = "", len(self._scene.ground.ended)
        try:
            await fault.inject(self._scene)
        except Exception as failed:  # whatever it is, it is reported, and the run goes on
            problem = f"it could not be injected: {failed!r}"
        ended = self._recorder.now()
        problem = problem or await self._recovered(fault.recovery_seconds)
        recovered = None if problem else self._recorder.now()
        window = Window(fault.name, began, ended, recovered, problem)
        since = began if fault.is_kill else ended
        took = None if recovered is None else recovered - since
        ended_by_themselves = self._scene.ground.ended[ended_before:]
        self.outcomes.append(Outcome(window, took, tuple(ended_by_themselves)))
        told = problem or f"recovered after {took:.1f} s"
        say(f"  {place:>6}  {fault.name}: {ended - began:.1f} s, {told}")
        if problem:
            # The next one shall be judged on its own.
            await self._recovered(fault.recovery_seconds)

    async def _recovered(self, within_seconds: float) -> str:
        """Return when admissions are decided everywhere and every status is true; or why not, when time is up."""
        deadline = time.monotonic() + within_seconds
        in_a_row = self._load.log.in_a_row
        in_a_row.clear()
        while missing := [one.namespace for one in self._load.places if in_a_row[one.namespace] < IN_A_ROW]:
            self._recorder.check()
            if time.monotonic() > deadline:
                return f"no {IN_A_ROW} decisions in a row in {', '.join(missing)} within {within_seconds:.0f} s"
            await asyncio.sleep(0.05)
        await self._load.pause()
        wrong = await self._until(checker.untruths, max(5.0, deadline - time.monotonic()))
        self._load.resume()
        return "; ".join(wrong)

    async def _until(self, wrong: Callable[[State], list[str]], within_seconds: float) -> list[str]:
        """What is wrong with the stored state, once nothing is or time is up."""
        deadline = time.monotonic() + within_seconds
        while True:
            try:
                await self._recorder.caught_up()
                found = wrong(self._recorder.history.now)
            except TimeoutError:
                found = ["etcd could not be read"]
            if not found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.1)
