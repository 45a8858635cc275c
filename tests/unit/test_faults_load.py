"""The load of `make faults`: the same seed asks for the same, whoever answers what, and when."""

import asyncio
import random
from typing import Any, cast

import pytest

from faults import load
from faults.api import Answer, Api
from faults.history import History
from faults.load import PLACES, Load
from faults.recorder import Recorder

ENOUGH = 40
CLIENTS = sum(place.clients for place in PLACES)


class Server:
    """Takes its time, says whatever comes to its mind, and remembers what every client asked for."""

    def __init__(self, seed: int) -> None:
        self.asked: dict[str, list[tuple[str, str, object]]] = {}
        self.has_heard_enough = asyncio.Event()
        self._rng = random.Random(seed)

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        task = asyncio.current_task()
        assert task is not None
        self.asked.setdefault(task.get_name(), []).append((method, path, body))
        if len(self.asked) == CLIENTS and min(map(len, self.asked.values())) >= ENOUGH:
            self.has_heard_enough.set()
        await asyncio.sleep(self._rng.random() / 1000)
        return Answer(self._rng.choice([200, 201, 404, 409, 429, 500, 0]))


class Silent:
    """A recorder that hears nothing."""

    def __init__(self) -> None:
        self.history = History()

    def now(self) -> float:
        return asyncio.get_running_loop().time()


async def asked(seed: int, luck: int) -> dict[str, list[tuple[str, str, object]]]:
    server = Server(luck)
    clients = Load(cast("Api", server), cast("Recorder", Silent()), PLACES, seed)
    async with asyncio.timeout(120), clients.running():
        clients.resume()
        await server.has_heard_enough.wait()
        await clients.pause()
    assert sum(map(len, server.asked.values())) == len(clients.log.requests), "nothing is under way after a pause"
    return {client: requests[:ENOUGH] for client, requests in server.asked.items()}


async def test_a_seed_is_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "PAUSE_SECONDS", 0.0)
    first = await asked(seed=7, luck=1)
    assert first == await asked(seed=7, luck=2)
    assert first != await asked(seed=8, luck=1)
    methods = {method for requests in first.values() for method, _, _ in requests}
    assert methods == {"POST", "PATCH", "DELETE"}
