"""The company's rule, tested as its owners would: without a federation, against federation-quota's public interface."""

from typing import Any

import pytest
from company_budget import Budget, cost, decide

from federation_quota.resources import NOTHING, Resources
from federation_quota.validators import Decision, Request, Tenant

DATA = {"price.cpu": "1", "price.memory": "0.125", "budget.shop": "10"}


def amounts(**texts: str) -> Resources:
    return Resources.parse(texts)


def test_cores_and_gibibytes_have_prices_and_the_rest_is_free() -> None:
    assert cost(DATA, amounts(cpu="1500m", memory="4Gi", pods="7")) == 2
    assert cost(DATA, NOTHING) == 0


@pytest.mark.parametrize(("used", "more", "allowed"), [("4", "6", True), ("4", "6001m", False), ("11", "0", True)])
def test_up_to_the_budget_and_no_further(used: str, more: str, allowed: bool) -> None:
    assert decide(DATA, "shop", amounts(cpu=used), amounts(cpu=more)).allowed is allowed


def test_a_refusal_says_what_is_missing_and_when_to_ask_again() -> None:
    found = decide(DATA, "shop", amounts(cpu="6"), amounts(cpu="6"))
    assert found.message == (
        "tenant shop spends 6.00 of 10.00 EUR a day, and this would be 6.00 more (short of: EUR a day=2.00)"
    )
    assert found.retry_after_seconds == 30


def test_who_has_no_budget_has_the_default_or_none() -> None:
    assert decide(DATA, "bank", NOTHING, amounts(cpu="99")).allowed
    assert not decide({**DATA, "budget.default": "1"}, "bank", NOTHING, amounts(cpu="99")).allowed


def test_a_namespace_that_is_called_like_a_tenant_does_not_have_its_budget() -> None:
    data = {**DATA, "budget.default": "1"}
    assert decide(data, "shop", NOTHING, amounts(cpu="5")).allowed
    assert not decide(data, "namespace:shop", NOTHING, amounts(cpu="5")).allowed


class Federation:
    """What a validator is given when it starts."""

    namespace = "federation-quota-system"

    def __init__(self, settings: dict[str, str], objects: dict[str, Any]) -> None:
        self.settings = settings
        self._objects = objects

    async def read(self, api_version: str, resource: str, name: str, namespace: str | None = None) -> Any:  # noqa: ANN401
        return self._objects.get(f"{api_version}/{resource}/{namespace}/{name}")


async def asked(federation: Federation) -> Decision:
    validator = Budget()
    validator.start(federation)
    more = amounts(cpu="11")
    request = Request("shop", "web", "apps/v1", "Deployment", "web", None, "", more, more, True, False, {})
    return await validator.validate(request, Tenant("shop", ("shop",), NOTHING))


async def test_prices_and_budgets_come_from_the_config_map_that_is_set() -> None:
    path = "v1/configmaps/federation-quota-system/money"
    assert not (await asked(Federation({"config-map": "money"}, {path: {"data": DATA}}))).allowed
    with pytest.raises(LookupError, match="there is no ConfigMap federation-quota-system/budgets"):
        await asked(Federation({}, {path: {"data": DATA}}))
