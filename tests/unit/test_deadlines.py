"""A review is answered within the time that the API server gives, also where nothing can be decided."""

import asyncio
import json

import aiohttp
import pytest

from federation_quota.kube import codec
from tests.unit.test_review_log import PATH, body, serving
from webhook.review import ALLOWED, Verdict

pytestmark = pytest.mark.virtual_time


class Judge:
    """Notes how much time it was given."""

    def __init__(self, *, is_stuck: bool = False) -> None:
        self.seconds = 0.0
        self._is_stuck = is_stuck

    async def __call__(self, _request: codec.AdmissionRequest, deadline: float) -> Verdict:
        self.seconds = deadline - asyncio.get_running_loop().time()
        if self._is_stuck:
            await asyncio.Event().wait()
        return ALLOWED


async def ask(judge: Judge, given: str) -> dict[str, object]:
    async with serving({PATH: judge}) as server, aiohttp.ClientSession() as session:
        address = server.make_url(PATH).with_query({"timeout": given} if given else {})
        async with session.post(address, data=body()) as answer:
            found: dict[str, object] = json.loads(await answer.text())["response"]
            return found


@pytest.mark.parametrize(
    ("given", "seconds"), [("10s", 8.0), ("", 8.0), ("30s", 24.0), ("1m0s", 24.0), ("2s", 1.5), ("1s", 0.5)]
)
async def test_some_of_the_time_is_kept_back_for_the_way(given: str, seconds: float) -> None:
    judge = Judge()
    await ask(judge, given)
    assert judge.seconds == pytest.approx(seconds)


async def test_who_is_stuck_says_later() -> None:
    answer = await ask(Judge(is_stuck=True), "0.6s")
    assert answer["allowed"] is False
    assert answer["status"]["code"] == 429  # type: ignore[index]
