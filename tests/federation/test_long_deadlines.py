"""The deadlines that the product really has, on a federation that is set up as people install it.

Elsewhere they are set to seconds. Each test here waits for one, and knows that nothing happened before it: `make soak`
runs them.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controllers.waking import PATROL_SECONDS
from federation_quota.elastic.forest import RECLAIM_DELAY_SECONDS
from federation_quota.karmadaquota import GRACE_SECONDS
from federation_quota.ledger.settling import EXPIRY_SECONDS
from localfed.directory import Shape
from localfed.federation import Federation
from localfed.fixtures import PATIENT
from localfed.guard import Guard
from localfed.kubectl import KubectlError
from tests.federation.manifests import DIVIDED, deployment, policy, quota
from tests.federation.refuser import REFUSAL, refusing
from tests.federation.stage import Stage, eventually
from tests.federation.teams import sharing

pytestmark = [pytest.mark.federation, pytest.mark.own, pytest.mark.soak]

LATE_SECONDS = 120  # how much later than its deadline a thing may happen on a machine that does much else


@pytest.fixture(scope="module")
def federation(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """One with the settings that everything has by itself, but for Karmada's patience with clusters on paper."""
    found = Federation(tmp_path_factory.mktemp("long") / "fed")
    found.up(Shape(members=2, nodes=2, quota=2, flags={"karmada-controller-manager": PATIENT}), guard)
    yield found
    found.down()


@contextmanager
def not_before(seconds: float) -> Iterator[None]:
    """What is waited for inside takes at least that long."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began >= seconds


async def test_what_was_admitted_and_never_came_counts_until_its_expiry(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "1"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("first", 1))
    eventually(lambda: stage.used("q") == {"cpu": "100m"})
    growth = ("patch", "rb", "first-deployment", "--type=merge", "-p", '{"spec": {"replicas": 6}}')

    def is_refused(*more: str) -> bool:
        try:
            stage.kubectl(*growth, *more)
        except KubectlError as refusal:
            return REFUSAL in str(refusal)
        return False

    def grow_in_vain() -> None:
        eventually(lambda: is_refused("--dry-run=server"), what="the other webhook is asked")
        with not_before(EXPIRY_SECONDS):
            assert is_refused()
            eventually(lambda: stage.used("q") == {"cpu": "600m"}, what="it counts")
            eventually(lambda: stage.used("q") == {"cpu": "100m"}, EXPIRY_SECONDS + LATE_SECONDS, "it counts no longer")

    async with refusing(stage, 1):
        await asyncio.to_thread(grow_in_vain)  # who refuses does so on this thread
    assert stage.status("q")["reservations"] == []


def test_what_no_binding_accounts_for_is_charged_when_its_grace_is_over(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "500m"}, memberUsage={"policy": "Charge"}))
    stage.quota_active("q")
    eventually(lambda: stage.get("namespace", stage.namespace, context="m1") is not None)
    container = {"name": "main", "image": "registry.example/none:1", "resources": {"requests": {"cpu": "400m"}}}
    about = {"name": "stowaway", "namespace": stage.namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": {"containers": [container]}}
    with not_before(GRACE_SECONDS):
        stage.federation.api.create(pod, context="m1")
        eventually(lambda: stage.used("q") == {"cpu": "400m"}, GRACE_SECONDS + LATE_SECONDS, "it is charged")


def test_what_was_lent_is_taken_back_when_the_delay_is_over(federation: Federation) -> None:
    with sharing(federation, {"a": "400m", "b": "600m"}) as teams:
        a, b = teams.stages["a"], teams.stages["b"]
        teams.share("one", "1")
        a.apply(policy(DIVIDED), deployment("own", 4), deployment("lent", 4))
        eventually(lambda: teams.used("a") == "800m", what="A borrows")
        with not_before(RECLAIM_DELAY_SECONDS):
            b.apply(policy(DIVIDED), deployment("api", 6))
            eventually(lambda: teams.used("b") == "600m", RECLAIM_DELAY_SECONDS + LATE_SECONDS, "B has its own")
        eventually(lambda: teams.used("a") == "400m", what="A gave back")


def test_a_workload_of_which_nobody_says_that_it_is_gone_is_struck_off_by_the_patrol(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "500m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("first", 5))
    eventually(lambda: stage.used("q") == {"cpu": "500m"})
    stage.apply(deployment("second", 1))
    eventually(lambda: len(stage.status("q").get("waiting") or []) == 1)
    stage.delete("deployment", "second")
    eventually(lambda: not stage.status("q").get("waiting"), 2 * PATROL_SECONDS + LATE_SECONDS, "nobody is listed")
