"""Many users at once, through two replicas: nobody has too much at any version, and all of it adds up.

How fast it is, `make bench SET=limits` tells.
"""

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import pytest

from bench.admission.load import Clients
from bench.limits import is_created, plan, settle, side
from bench.limits.estate import ROOMY, TIGHT, estate
from bench.limits.witness import witnessing
from faults.allowances import GROUPS, ROOT, USERS, Allowances, Subject
from federation_quota.kube import config
from federation_quota.kube.client import Client
from localfed.federation import Federation
from localfed.fixtures import clear
from tests.federation.stage import Stage, eventually
from tests.federation.test_busy import advanced

pytestmark = pytest.mark.federation

CLIENTS = 16
SECONDS = 3
MOST_TURNS = 60
OTHERS = {"200", "404 NotFound", "403 QuotaExceeded", "429 TooManyRequests"}
SORTS = {(kind, is_root) for kind in (USERS, GROUPS) for is_root in (True, False)}


async def test_nobody_has_too_much_at_any_version(federation: Federation) -> None:
    tree = f"busy-{uuid.uuid4().hex[:6]}"
    one = side(estate(federation, tree, users=20, groups=4, terms=TIGHT))
    connection = await config.load(kubeconfig=str(federation.directory.kubeconfig))
    async with (
        Clients(connection, most=CLIENTS) as clients,
        Client(connection, connections=4) as client,
        witnessing(client, [one.allowances]) as witness,
        removed(federation, tree, one.estate.namespaces),
    ):
        await settle(one, clients, {})
        plans = [plan(one.estate, f"t-{number}", "t") for number in range(CLIENTS)]
        found = one.allowances
        # How much is asked for in a second is the machine's to say: so until every sort of limit has been reached.
        for _ in range(MOST_TURNS):
            told = await clients.turn(plans, 1, is_created)
            # Deletions, of what was stored and of what was not; what is refused, and what is to be asked again.
            assert told.others.keys() <= OTHERS, told.others
            await witness.judge()
            assert found.breaches == []
            if {(subject.kind, subject.node == ROOT) for subject in found.reached} == SORTS:
                break
        else:
            pytest.fail(f"after {MOST_TURNS} turns no more than {sorted(map(str, found.reached))} was reached")
        # With nothing under way, the accounts say what is stored.
        eventually(lambda: _differences(federation, found) == [], what="all accounts are true")
        await asyncio.gather(*(clients.ask(request) for request in one.estate.clearings("t")))


@pytest.mark.alone
async def test_far_from_their_limits_who_come_again_cost_no_write_at_either_replica(stage: Stage) -> None:
    federation, tree = stage.federation, f"roomy-{uuid.uuid4().hex[:6]}"
    one = side(estate(federation, tree, users=10, groups=2, terms=ROOMY))
    connection = await config.load(kubeconfig=str(federation.directory.kubeconfig))
    async with (
        Clients(connection, most=CLIENTS) as clients,
        Client(connection, connections=4) as client,
        witnessing(client, [one.allowances]) as witness,
        removed(federation, tree, one.estate.namespaces),
    ):
        await settle(one, clients, {})
        spent = advanced(stage)
        plans = [plan(one.estate, f"t-{number}", "t") for number in range(CLIENTS)]
        told = await clients.turn(plans, SECONDS, is_created)
        assert told.others.keys() <= {"429 TooManyRequests"}, "which the busy may hear, and nothing else"
        people = 2 * len(told.latencies)  # a user and mostly a group for each; their leaves are never advanced
        assert advanced(stage) - spent > people / 2, "most of them took no write of their own"
        held = [account.get("status", {}).get("advances") or [] for account in _accounts(federation, tree)]
        both = [many for many in held if len({held["replica"] for held in many}) == 2]
        assert any(one.get("granted") for many in both for one in many), "one has taken it for the other"
        assert {name for many in held for one in many for name in one["amounts"]} <= {"applications", "cpu"}
        await witness.judge()
        assert one.allowances.breaches == []
        eventually(lambda: _differences(federation, one.allowances) == [], what="they are true")
        await asyncio.gather(*(clients.ask(request) for request in one.estate.clearings("t")))


def _accounts(federation: Federation, tree: str) -> list[dict[str, Any]]:
    found = federation.api.list("usageaccounts")
    return [account for account in found if account["spec"]["tree"] == tree]


def _differences(federation: Federation, found: Allowances) -> list[str]:
    """Where an account says anything else than what is stored, or keeps what was under way."""
    wrong, seen = [], Counter[str]()
    for account in _accounts(federation, found.tree):
        spec, status = account["spec"], account.get("status") or {}
        if status.get("reservations"):
            wrong.append(f"{spec['name']} keeps reservations")
        for node in status.get("nodes") or []:
            kind = USERS if spec["kind"] == "User" else GROUPS
            used = found.used.get(Subject(kind, spec["name"], node["node"]), {})
            seen[kind] += bool(used.get("pods"))
            if node["used"].get("cpu") != Stage.used_text(used.get("cpu", Fraction(0))):
                wrong.append(f"{spec['name']} on {node['node']}: {node['used']}, and {used} is stored")
    return wrong if seen[USERS] and seen[GROUPS] else ["nothing is accounted for"]


@asynccontextmanager
async def removed(federation: Federation, tree: str, namespaces: list[str]) -> AsyncIterator[None]:
    """At the end nothing of it is left to others."""
    try:
        yield
    finally:
        for namespace in namespaces:
            clear(federation, namespace)
        no_limits = json.dumps({"spec": {"limits": []}})
        federation.kubectl("patch", "quotatree", tree, "--type=merge", "-p", no_limits)
