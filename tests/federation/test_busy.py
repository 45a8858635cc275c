"""A busy quota: nobody fails, hardly anything is written, and all of it adds up. How fast it is, `make bench` tells."""

import asyncio
import re
import urllib.request
from fractions import Fraction

import pytest

from bench.admission import load
from bench.admission.gauges import Gauges
from bench.admission.load import Clients
from federation_quota.kube import config
from tests.federation.history import witness
from tests.federation.manifests import quota
from tests.federation.stage import Stage, eventually
from tests.federation.test_concurrency import connected

pytestmark = [pytest.mark.federation, pytest.mark.alone]

ADVANCED = re.compile(r"^federation_quota_advance_admissions_total (\S+)$", re.MULTILINE)
CLIENTS = 32
EACH = 12


async def test_far_from_the_limit_many_admissions_share_few_writes_and_none_fails(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "100000"}))
    stage.quota_active("q")
    connection = await config.load(kubeconfig=str(stage.federation.directory.kubeconfig))
    async with (
        connected(stage, 4, attempts=1) as client,
        witness(client, stage.namespace) as history,
        Clients(connection, most=CLIENTS) as clients,
    ):
        gauges = Gauges(clients, {})

        async def create(number: int) -> list[tuple[int, bytes]]:
            plan = load.creations(stage.namespace, f"b{number}")
            return [await clients.ask(next(plan)) for _ in range(EACH)]

        before, spent = await gauges.read(), advanced(stage)
        answers = [one for many in await asyncio.gather(*map(create, range(CLIENTS))) for one in many]
        writes = (await gauges.read()).since(before).writes
    assert {status for status, _ in answers} == {201}
    assert advanced(stage) - spent > CLIENTS * EACH / 2, "most of them took no write of their own"
    assert writes <= CLIENTS * EACH / 4, "two replicas and the controllers, all quotas of the federation together"
    total = Fraction(CLIENTS * EACH, 10)
    assert history.total == total
    eventually(
        lambda: (
            stage.used("q") == {"cpu": stage.used_text(total)}
            and not stage.status("q").get("reservations")
            and not stage.status("q").get("advances")
        ),
        what="all that was taken in advance is given back",
    )
    await delete_all(connection, stage.namespace)


def advanced(stage: Stage) -> float:
    """How many all replicas have admitted without a write of their own."""
    found = 0.0
    for name in ("quota-webhook-1", "quota-webhook-2"):
        address = stage.federation.spec(name).health.replace("/readyz", "/metrics")
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - of a process of ours
            found += sum(float(one) for one in ADVANCED.findall(answer.read().decode()))
    return found


async def delete_all(connection: config.Connection, namespace: str) -> None:
    """Karmada's detector would look at each of them when the namespace goes."""
    async with Clients(connection, most=1) as clients:
        assert (await clients.ask(load.deletion(namespace)))[0] == 200
