"""Many clients at once, two webhook replicas, requests that die after they were admitted: exact all the same."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import pytest

from federation_quota.kube import config, error
from federation_quota.kube.client import Client, PatchType
from federation_quota.kube.quotas import RESOURCE_BINDINGS
from federation_quota.kube.retry import Policy
from tests.federation.history import witness
from tests.federation.manifests import quota
from tests.federation.refuser import REFUSAL, refusing
from tests.federation.stage import Stage, eventually

pytestmark = pytest.mark.federation


def binding(name: str, namespace: str, replicas: int) -> dict[str, Any]:
    """A binding as Karmada's detector makes it, for a workload that does not matter here."""
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": name},
            "replicas": replicas,
            "replicaRequirements": {"resourceRequest": {"cpu": "100m"}},
        },
    }


@asynccontextmanager
async def connected(stage: Stage, clients: int, attempts: int) -> AsyncIterator[Client]:
    connection = await config.load(kubeconfig=str(stage.federation.directory.kubeconfig))
    async with Client(
        connection, connections=clients + 2, timeout_seconds=90, retry=Policy(attempts=attempts)
    ) as client:
        yield client


async def test_64_clients_fill_a_quota_exactly_to_the_limit(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "10"}))  # a hundred times 100m
    stage.quota_active("q")
    outcomes: Counter[str] = Counter()
    # A 429 is tried again, as every client of Kubernetes does.
    async with connected(stage, 64, attempts=200) as client, witness(client, stage.namespace) as history:

        async def fill(number: int) -> None:
            for turn in range(3):
                name = f"b{number}-{turn}"
                try:
                    await client.create(RESOURCE_BINDINGS, binding(name, stage.namespace, 1), stage.namespace)
                    outcomes["stored"] += 1
                except error.ForbiddenError as refusal:
                    outcomes[refusal.reason] += 1

        await asyncio.gather(*(fill(number) for number in range(64)))
    assert outcomes == {"stored": 100, "QuotaExceeded": 92}
    assert history.highest == history.total == Fraction(10)
    eventually(lambda: stage.used("q") == {"cpu": "10"})
    eventually(lambda: stage.status("q")["reservations"] == [])


async def test_requests_that_die_after_admission_and_stale_patches_neither_over_admit_nor_leak(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "4"}))
    stage.quota_active("q")
    rng = random.Random(1)
    outcomes: Counter[str] = Counter()
    async with (
        connected(stage, 32, attempts=1) as client,
        refusing(stage, 1 / 3),
        witness(client, stage.namespace) as history,
    ):

        async def play(number: int) -> None:
            name = f"b{number % 12}"  # several clients on each binding: conflicts, duplicate CREATEs
            for _ in range(12):
                await step(client, stage.namespace, name, rng, outcomes)

        await asyncio.gather(*(play(number) for number in range(32)))
    assert history.highest <= Fraction(4), "at every stored version, not only at the end"
    assert outcomes.keys() <= {"stored", "exists", "missing", "QuotaExceeded", "TooManyRequests", REFUSAL}
    assert {"stored", "exists", REFUSAL} <= outcomes.keys()
    expected = stage.used_text(history.total)
    eventually(
        lambda: stage.status("q")["reservations"] == [] and stage.used("q") == {"cpu": expected},
        what="used is the sum of what is stored again",
    )


async def step(client: Client, namespace: str, name: str, rng: random.Random, outcomes: Counter[str]) -> None:
    replicas = rng.randint(1, 8)
    try:
        match rng.random():
            case chance if chance < 0.4:
                await client.create(RESOURCE_BINDINGS, binding(name, namespace, replicas), namespace)
            case chance if chance < 0.85:
                # No resourceVersion in it: the API server reviews again, on a fresh object, for every conflict.
                patch = {"spec": {"replicas": replicas}}
                await client.patch(RESOURCE_BINDINGS, name, patch, namespace, type=PatchType.MERGE)
            case _:
                await client.delete(RESOURCE_BINDINGS, name, namespace)
        outcomes["stored"] += 1
    except error.AlreadyExistsError:
        outcomes["exists"] += 1
    except error.NotFoundError:
        outcomes["missing"] += 1
    except error.ApiError as problem:
        outcomes[REFUSAL if REFUSAL in str(problem) else problem.reason] += 1
