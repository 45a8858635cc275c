"""The audit over the history of a simulated world: silent about all that was reserved, loud about what was not.

A history is seen through two watches, each of which lags behind the other at times, as a controller sees it.
"""

import random

from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.ledger.audit import Audit, Increase, Unreserved
from federation_quota.quantity import parse
from federation_quota.resources import Resources
from federation_quota.stamp import Stamp
from tests.simulation.scenario import Scenario
from tests.simulation.violation import Violation
from tests.simulation.world import NAMESPACE, World, claims_of, place_of
from webhook.bindings import asks_of


def audited(world: World, rng: random.Random) -> list[Unreserved]:
    """What the audit finds in all that happened."""
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


async def run(scenario: Scenario, seed: int) -> None:
    """Let a world happen, audit it, store a binding that nobody reserved for, and audit it again."""
    await scenario.run()
    world, rng = scenario.world, random.Random(seed)
    if false := audited(world, rng):
        raise Violation(f"the audit reports what was reserved: {false}")
    key, amounts = ObjectKey(NAMESPACE, "smuggled"), Resources({"pods": parse(3)})
    template = TemplateRef("apps/v1", "Deployment", *key)
    smuggled = Binding(key, "a-uid", 0, template, demand=amounts, assigned=amounts, stamp=Stamp("gold", leaf="lab"))
    world.store_binding(smuggled)
    claims = {place: claim for place, _, claim in claims_of(smuggled)}
    accounts = [one for one in world.accounts.values() if one.is_active and one.namespace in claims]
    concerned = {one.name for one in accounts if one.lens.cost(claims[one.namespace])}
    world.note("smuggled" if concerned else "smuggled where nobody counts it")
    reported = {one.quota for one in audited(world, rng)}
    if reported != concerned:
        raise Violation(f"the audit reports {sorted(reported)}, and a binding was smuggled past {sorted(concerned)}")
