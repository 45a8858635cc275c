"""What the webhook's server says and counts about reviews: once each, with their uid, and never an object."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import pytest
import structlog
from aiohttp.test_utils import BaseTestServer, TestServer
from structlog.testing import capture_logs
from structlog.typing import EventDict

from federation_quota import hooks, metrics
from federation_quota.accounting.answer import Answer, Denied
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import Store
from federation_quota.health import Health
from federation_quota.kube import codec
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import Ask, Exceeded
from federation_quota.quantity import parse
from tests.unit.accounts import quota
from tests.unit.documents import BINDING, changed
from tests.unit.reviews import TEAM, Api, Books, behaving
from tests.unit.test_works import deployment, work
from webhook.advice import Advice
from webhook.bindings import BindingReview
from webhook.quotas import QuotaReview
from webhook.review import ALLOWED, Verdict, exceeded, later
from webhook.server import Hook, Server
from webhook.works import WorkReview

PATH = hooks.VALIDATE_BINDINGS
NAME = PATH.removeprefix("/")
SECRET = "c2VjcmV0LXZhbHVlLTEyMzQ="  # noqa: S105 - stands for one


def denial(used: int = 8, requested: int = 3) -> Denial:
    return Denial("q", [Exceeded("cpu", parse(requested), parse(used), parse(10))])


class Judge:
    """Answers as it is told."""

    def __init__(self) -> None:
        self.verdict: Verdict | Exception = ALLOWED

    async def __call__(self, request: codec.AdmissionRequest, deadline: float) -> Verdict:
        await asyncio.sleep(0)
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict


@asynccontextmanager
async def serving(hooks: dict[str, Hook]) -> AsyncIterator[BaseTestServer]:
    server = Server(hooks, health=Health(ready={}, live={}))
    async with TestServer(server._app) as listening:
        yield listening


def body(name: str = "web", uid: str = "a-uid", new: Any = None, resource: str = "resourcebindings") -> bytes:  # noqa: ANN401
    request = {
        "uid": uid,
        "operation": "CREATE",
        "kind": {},
        "resource": {"group": "work.karmada.io", "version": "v1alpha2", "resource": resource},
        "namespace": TEAM,
        "name": name,
        "userInfo": {"username": "karmada"},
        "object": {} if new is None else new,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


async def post(server: BaseTestServer, data: bytes, path: str = PATH) -> str:
    async with aiohttp.ClientSession() as session, session.post(server.make_url(path), data=data) as answer:
        return await answer.text()


@pytest.fixture
def said() -> Iterator[list[EventDict]]:
    with capture_logs() as lines:
        yield lines


def counted(result: str, reason: str) -> float:
    labels = {"hook": NAME, "result": result, "reason": reason}
    return metrics.REGISTRY.get_sample_value("federation_quota_admissions_total", labels) or 0.0


def denied() -> float:
    return metrics.REGISTRY.get_sample_value("federation_quota_denied_total", {"hook": NAME}) or 0.0


async def test_a_denial_explains_itself_once(said: list[EventDict]) -> None:
    judge = Judge()
    before = denied(), counted("refused", "QuotaExceeded")
    async with serving({PATH: judge}) as server:
        for used in (8, 9, 8):  # the same is tried again, while others come and go
            judge.verdict = exceeded(denial(used))
            await post(server, body())
        [line] = said
        assert {key: line[key] for key in ("event", "quota", "requested", "used", "limited", "binding", "user")} == {
            "event": "review.denied",
            "quota": "q",
            "requested": "cpu=3",
            "used": "cpu=8",
            "limited": "cpu=10",
            "binding": "web",
            "user": "karmada",
        }
        assert (denied(), counted("refused", "QuotaExceeded")) == (before[0] + 1, before[1] + 3)
        judge.verdict = exceeded(denial(requested=4))  # something else is asked
        await post(server, body())
        await post(server, body("another"))
        judge.verdict = ALLOWED
        await post(server, body())
        judge.verdict = exceeded(denial(requested=4))  # after it was let through, it is another refusal
        await post(server, body())
    assert [line["binding"] for line in said] == ["web", "web", "another", "web"]


async def test_what_cannot_be_decided_is_postponed_and_counted_apart(said: list[EventDict]) -> None:
    judge = Judge()
    judge.verdict = later("it is being taken up by all replicas")
    before = counted("later", "TooManyRequests")
    async with serving({PATH: judge}) as server:
        for _ in range(5):
            await post(server, body())
    assert [line["event"] for line in said] == ["review.postponed"]
    assert counted("later", "TooManyRequests") == before + 5


async def test_a_mistake_of_ours_is_counted_as_one(said: list[EventDict]) -> None:
    judge = Judge()
    judge.verdict = RuntimeError("oops")
    before = counted("failed", "InternalError")
    async with serving({PATH: judge}) as server:
        await post(server, body())
    assert [line["event"] for line in said] == ["review.failed"]
    assert counted("failed", "InternalError") == before + 1


async def test_lines_written_while_a_review_is_handled_carry_its_uid() -> None:
    seen = []

    async def hook(request: codec.AdmissionRequest, deadline: float) -> Verdict:
        await asyncio.sleep(0)
        seen.append(structlog.contextvars.get_contextvars())
        return ALLOWED

    async with serving({PATH: hook}) as server, aiohttp.ClientSession() as session:
        for uid in ("one", "two"):  # over one connection, which aiohttp serves by one task
            async with session.post(server.make_url(PATH), data=body(uid=uid)) as answer:
                await answer.read()
    assert seen == [{"review": "one"}, {"review": "two"}]
    assert structlog.contextvars.get_contextvars() == {}


CONTAINER = {"name": "c", "env": [{"name": "P", "value": SECRET}], "resources": {"requests": {"cpu": "5"}}}
SECRETS: dict[str, tuple[str, dict[str, Any]]] = {
    "a Work that brings a Secret": (
        hooks.VALIDATE_WORKS,
        work({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": SECRET}}),
    ),
    "a Work with more than admitted, and a password in its environment": (
        hooks.VALIDATE_WORKS,
        work(changed("spec/template/spec/containers", [CONTAINER], deployment())),
    ),
    "a binding with a token in an annotation": (PATH, changed("metadata/annotations/token", SECRET)),
    "a binding of a strange shape": (PATH, changed("spec", SECRET)),
    "a quota that is none": (
        hooks.VALIDATE_QUOTAS,
        {"metadata": {"name": "q", "annotations": {"token": SECRET}}, "spec": {"hard": {"cpu": "-1"}}},
    ),
    "a workload that cannot be read": (
        hooks.DENY_WORKLOADS,
        {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": {"spec": {"containers": SECRET}}}},
    ),
}


class Refusing(Books):
    """Refuses whatever is asked."""

    async def answer(self, asks: Mapping[str, Ask], *, dry_run: bool, **_options: object) -> Answer:
        await asyncio.sleep(0)
        return Denied(denial())


@pytest.mark.parametrize("case", SECRETS)
async def test_no_object_and_no_secret_reaches_the_log(case: str, said: list[EventDict]) -> None:
    path, new = SECRETS[case]
    account = behaving(quota("q", {"cpu": 9}))
    books = Refusing([account], {"q": account})
    api = Api({"web-deployment": BINDING})
    reviews: dict[str, Hook] = {
        hooks.VALIDATE_WORKS: WorkReview(books.accountant, api.client, cast(Store, books), lambda: True),
        hooks.VALIDATE_BINDINGS: BindingReview(books.accountant, lambda _user: False),
        hooks.VALIDATE_QUOTAS: QuotaReview(lambda _user: False),
        hooks.DENY_WORKLOADS: Advice(
            books.accountant, Observation(), BindingMirror(Observation()), api.client, denies=True
        ),
    }
    async with serving(reviews) as server:
        answer = await post(server, body(new=new), path)
        assert "AdmissionReview" in answer
        await post(server, body(new=new)[:-3] + b"]", path)
    assert said  # the second, at least, is no review
    told = json.dumps(said, default=repr)
    assert SECRET not in told
    assert "containers" not in told


async def test_every_review_is_timed() -> None:
    def timed() -> float:
        return metrics.REGISTRY.get_sample_value("federation_quota_admission_seconds_count", {"hook": NAME}) or 0.0

    before = timed()
    async with serving({PATH: Judge()}) as server:
        await post(server, body())
    assert timed() == before + 1
