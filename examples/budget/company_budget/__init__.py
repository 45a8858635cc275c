"""A spending budget for each tenant: what all that it runs costs a day may not be more than it has.

Prices and budgets stand in a ConfigMap in the system's namespace, read anew for each request: a budget that is raised
counts at once. The rule counts nothing itself. What the tenant uses it is told, with what was allowed a moment ago.
"""

from collections.abc import Mapping
from decimal import Decimal

from federation_quota.resources import Resources
from federation_quota.validators import Context, Decision, Request, Tenant, allow, refuse

UNITS = {"memory": Decimal(2**30), "ephemeral-storage": Decimal(2**30)}
"""What a price is for, where that is not one: a GiB."""


class Budget:
    """The validator. `async`, because reading the ConfigMap is all that it waits for."""

    name = "budget"
    enabled = True

    def start(self, context: Context) -> None:
        """Remember where to look; `--validator-settings=budget.config-map=NAME` names another ConfigMap."""
        self._context = context
        self._config_map = context.settings.get("config-map", "budgets")

    async def validate(self, request: Request, tenant: Tenant) -> Decision:
        """Whether the tenant can afford it."""
        found = await self._context.read("v1", "configmaps", self._config_map, self._context.namespace)
        if found is None:  # without prices nobody can say what anything costs: better to ask again later
            raise LookupError(f"there is no ConfigMap {self._context.namespace}/{self._config_map}")
        return decide(found.get("data") or {}, tenant.name, tenant.used, request.increase)


def decide(data: Mapping[str, str], tenant: str, used: Resources, increase: Resources) -> Decision:
    """The rule itself: pure, so that it can be tested without a federation.

    A namespace that is a tenant of its own is called `namespace:shop`, which no key of a ConfigMap can be: it has the
    default, and never the budget of the tenant `shop`.
    """
    limit = data.get(f"budget.{tenant}", data.get("budget.default"))
    if limit is None:
        return allow()
    currency = data.get("currency", "EUR")
    budget, spent, more = Decimal(limit), cost(data, used), cost(data, increase)
    if not more or spent + more <= budget:
        return allow()
    return refuse(
        f"tenant {tenant} spends {spent:.2f} of {budget:.2f} {currency} a day, and this would be {more:.2f} more",
        {f"{currency} a day": f"{spent + more - budget:.2f}"},
        retry_after_seconds=30,
    )


def cost(data: Mapping[str, str], amounts: Resources) -> Decimal:
    """What these cost a day. What has no price is free."""
    total = Decimal(0)
    for name, amount in amounts.items():
        price = Decimal(data.get(f"price.{name}", "0"))
        total += price * Decimal(amount.nano) / 10**9 / UNITS.get(name, Decimal(1))
    return total
