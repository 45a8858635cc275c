"""When each version of the bindings in a namespace was stored, as a watch of its own saw it.

Both ends of a measured time come through one stream and are stamped by one clock: what the watch itself takes counts
on neither side.
"""

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.federation.stage import Stage
from tests.promises import promised

# How long it may take from quota being freed to what waited for it being stored: sooner than the patrol would come by,
# however busy the machine is. The promise is a second: `make soak` holds it to that.
ARRIVAL_SECONDS = promised(1.0, at_most=20.0)


@dataclass(frozen=True)
class Seen:
    """One event of the watch."""

    at: float
    type: str
    binding: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.binding["metadata"]["name"]).removesuffix("-deployment")

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.binding["spec"]
        return spec

    @property
    def assigned(self) -> int:
        """The replicas in all clusters together."""
        return sum(one["replicas"] for one in self.spec.get("clusters") or [])


class Timeline:
    """Everything stored since it began, in order."""

    def __init__(self) -> None:
        self.events: list[Seen] = []
        self._news = threading.Condition()

    def add(self, line: bytes) -> None:
        event = json.loads(line)
        with self._news:
            if event["type"] != "BOOKMARK":
                self.events.append(Seen(time.monotonic(), event["type"], event["object"]))
            self._news.notify_all()

    def wait(self, condition: Callable[[Seen], bool], what: str, within_seconds: float = 120, since: int = 0) -> Seen:
        """The first event that fulfils it, among those there are and those to come."""
        deadline = time.monotonic() + within_seconds
        with self._news:
            while True:
                for seen in self.events[since:]:
                    if condition(seen):
                        return seen
                remaining = deadline - time.monotonic()
                told = [(seen.type, seen.name, seen.spec.get("clusters")) for seen in self.events]
                assert remaining > 0, f"{what}: not within {within_seconds} s; seen: {told}"
                self._news.wait(remaining)

    def deleted(self, name: str) -> Seen:
        return self.wait(lambda seen: seen.type == "DELETED" and seen.name == name, f"{name} is deleted")


@contextmanager
def following(stage: Stage) -> Iterator[Timeline]:
    """Watch the bindings of the stage's namespace while the block lasts."""
    environment = stage.federation.environment()
    kubectl = shutil.which("kubectl", path=environment["PATH"])
    assert kubectl
    path = f"/apis/work.karmada.io/v1alpha2/namespaces/{stage.namespace}/resourcebindings"
    listed = stage.federation.api.raw(path)
    query = f"watch=true&resourceVersion={listed['metadata']['resourceVersion']}&allowWatchBookmarks=true"
    timeline = Timeline()
    with subprocess.Popen(
        [kubectl, "--kubeconfig", environment["KUBECONFIG"], "get", "--raw", f"{path}?{query}"], stdout=subprocess.PIPE
    ) as process:

        def read() -> None:
            assert process.stdout
            for line in process.stdout:
                timeline.add(line)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield timeline
        finally:
            process.kill()
            reader.join(10)
