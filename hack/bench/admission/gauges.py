"""What a turn costs beside time: processor time of each program, and writes of quota statuses, as the server counts."""

import re
from dataclasses import dataclass, field, replace

import psutil

from bench.admission.load import Clients, Request

_WRITES = re.compile(
    rb'^apiserver_request_total\{[^}]*resource="(?:karmadaquotas|federatedresourcequotas|compositeelasticquotas|'
    rb'usageaccounts)"[^}]*'
    rb'subresource="status"[^}]*verb="(?:PUT|PATCH|APPLY)"[^}]*\} (\S+)$',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """All gauges, at one moment or over one turn."""

    writes: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)  # processor time, by part

    def since(self, before: "Reading") -> "Reading":
        """What has been added."""
        return Reading(
            self.writes - before.writes, {part: now - before.seconds[part] for part, now in self.seconds.items()}
        )


class Gauges:
    """The gauges of one federation; `parts` names the processes of each part."""

    def __init__(self, clients: Clients, parts: dict[str, list[psutil.Process]]) -> None:
        self._clients = clients
        self._parts = parts

    def processors(self) -> Reading:
        """The processors' part alone: an API server works for half a second on telling all of its metrics."""
        return Reading(seconds={part: sum(map(_seconds, found)) for part, found in self._parts.items()})

    async def read(self) -> Reading:
        """As they stand."""
        status, body = await self._clients.ask(Request("GET", "/metrics", b"", {"Accept": "text/plain"}))
        if status != 200:
            raise RuntimeError(f"the API server does not tell its metrics: {status}")
        writes = sum(float(one) for one in _WRITES.findall(body))
        return replace(self.processors(), writes=writes)


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
