"""The audit over the histories of the simulated world: silent about all that was reserved, loud about what was not.

A history is seen through two watches, each of which lags behind the other at times, as a controller sees it.
"""

import random

import pytest

from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.ledger.audit import Audit, Increase, Unreserved
from federation_quota.quantity import parse
from federation_quota.resources import Resources
from federation_quota.stamp import Stamp
from tests.simulation import clock
from tests.simulation.scenario import Scenario
from tests.simulation.world import NAMESPACE, World, claims_of, place_of
from webhook.bindings import asks_of

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
    audit, known, found = Audit(), dict[ObjectKey, Binding](), list[Unreserved]()
    accounts, bindings = list(world.account_events), list(world.binding_events)
    seen = {"accounts": 0, "bindings": 0}
    while accounts or bindings:
        which = rng.choice([bool(accounts)] * 3 + [not bindings] * 3)
        for _ in range(rng.randint(1, 30)):
            if which and accounts:
                version, name, account = accounts.pop(0)
                seen["accounts"] = version
                if account is None:
                    audit.account_deleted(place_of(name), name)
                else:
                    audit.account_stored(account)
            elif not which and bindings:
                binding, is_gone = bindings.pop(0)
                seen["bindings"] = binding.version
                before = known.pop(binding.key, None)
                if not is_gone:
                    known[binding.key] = binding
                    for place, ask in asks_of(binding, before, identifier="").items():
                        audit.increased(Increase(place, ask.binding, binding.version, ask.old, ask.new))
        found += audit.reached(**seen)
    return found + audit.reached(accounts=world.version, bindings=world.version)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_was_reserved_is_never_alarmed_about_and_what_was_not_always_is(seed: int) -> None:
    world, rng = history(seed), random.Random(seed)
    assert len(world.binding_events) > 20
    assert audited(world, rng) == []
    key, amounts = ObjectKey(NAMESPACE, "smuggled"), Resources({"pods": parse(3)})
    template = TemplateRef("apps/v1", "Deployment", *key)
    smuggled = Binding(key, "a-uid", 0, template, demand=amounts, assigned=amounts, stamp=Stamp("gold", leaf="lab"))
    world.store_binding(smuggled)
    claims = {place: claim for place, _, claim in claims_of(smuggled)}
    accounts = [one for one in world.accounts.values() if one.is_active and one.namespace in claims]
    concerned = {one.name for one in accounts if one.lens.cost(claims[one.namespace])}
    assert {one.quota for one in audited(world, rng)} == concerned
