"""A pytest plugin: says what the tests of one lane do, as JSON lines into the pipe that the runner reads.

Loaded with `-p suite.events`. Under xdist it speaks in the controller alone, for all workers.
"""

import json
import os
from typing import Any

import pytest

PIPE = "SUITE_PIPE"  # the file descriptor to write to


def pytest_configure(config: pytest.Config) -> None:
    """Speak, unless this is a worker, or nobody listens."""
    descriptor = os.environ.get(PIPE)
    if descriptor and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Speaker(int(descriptor)), "suite-speaker")


class Speaker:
    """Turns pytest's hooks into events."""

    def __init__(self, descriptor: int) -> None:
        self._pipe = os.fdopen(descriptor, "w", buffering=1)
        self._seconds: dict[str, dict[str, float]] = {}
        self._has_counted = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without xdist, these are the tests; its controller collects none."""
        if session.items:
            self._say("collected", count=len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Every worker collects the same tests."""
        if not self._has_counted:
            self._has_counted = True
            self._say("collected", count=len(ids))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be imported has no tests that could fail."""
        if report.failed:
            self._say("broken", test=report.nodeid, text=str(report.longrepr))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self._say("started", test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of a test is over."""
        seconds = self._seconds.setdefault(report.nodeid, {})
        seconds[report.when] = report.duration
        if report.failed:
            sections = "".join(f"\n--- {title} ---\n{text}" for title, text in report.sections)
            self._say("failed", test=report.nodeid, phase=report.when, text=report.longreprtext + sections)
        if report.skipped:
            self._say("skipped", test=report.nodeid, text=str(report.longrepr))
        if report.when == "teardown":
            self._say("finished", test=report.nodeid, seconds=self._seconds.pop(report.nodeid))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:  # noqa: ANN401 - xdist's own class
        """A worker has ended; where it should not have, say so."""
        if error:
            self._say("crashed", worker=node.gateway.id, text=str(error))

    def _say(self, event: str, **details: object) -> None:
        self._pipe.write(json.dumps({"event": event, **details}) + "\n")
