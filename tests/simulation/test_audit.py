"""The audit over the histories of the simulated world: silent about all that was reserved, loud about what was not.

A history is seen through two watches, each of which lags behind the other at times, as a controller sees it.
"""

import random

import pytest

from federation_quota.ledger.audit import Audit, Increase, Unreserved
from federation_quota.ledger.claim import NO_CLAIM, Claim
from federation_quota.ledger.judging import Ask
from federation_quota.quantity import parse
from federation_quota.resources import Resources
from tests.simulation import clock
from tests.simulation.scenario import Scenario
from tests.simulation.world import NAMESPACE, World

SEEDS = 25


def history(seed: int) -> World:
    scenario: Scenario | None = None

    async def main() -> None:
        nonlocal scenario
        scenario = Scenario(seed)
        await scenario.run()

    clock.run(main())
    assert scenario is not None
    return scenario.world


def audited(world: World, rng: random.Random) -> list[Unreserved]:
    audit, claims, found = Audit(), dict[str, Claim](), list[Unreserved]()
    accounts, bindings = list(world.account_events), list(world.binding_events)
    seen = {"accounts": 0, "bindings": 0}
    while accounts or bindings:
        which = rng.choice([bool(accounts)] * 3 + [not bindings] * 3)
        for _ in range(rng.randint(1, 30)):
            if which and accounts:
                version, name, account = accounts.pop(0)
                seen["accounts"] = version
                if account is None:
                    audit.account_deleted(NAMESPACE, name)
                else:
                    audit.account_stored(account)
            elif not which and bindings:
                version, name, entry, _ = bindings.pop(0)
                seen["bindings"] = version
                before = claims.pop(name, NO_CLAIM)
                if entry is not None:
                    claims[name] = entry.claim
                    if Ask("", name, entry.claim, before).increases:
                        audit.increased(Increase(NAMESPACE, name, version, before, entry.claim))
        found += audit.reached(**seen)
    return found + audit.reached(accounts=world.version, bindings=world.version)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_was_reserved_is_never_alarmed_about_and_what_was_not_always_is(seed: int) -> None:
    world, rng = history(seed), random.Random(seed)
    assert len(world.binding_events) > 20
    assert audited(world, rng) == []
    smuggled = Claim(Resources({"pods": parse(3)}), "gold")
    world.store_binding("smuggled", "a-uid", smuggled)
    concerned = {one.name for one in world.accounts.values() if one.is_active and one.lens.cost(smuggled)}
    assert {one.quota for one in audited(world, rng)} == concerned
