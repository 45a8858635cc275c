"""The webhook configurations: who is asked about what, and what happens when nobody answers."""

from typing import Any

from federation_quota import api, hooks, names
from federation_quota.group_resource import WORKLOADS, GroupResource
from tests.unit.reviews import review
from webhook.writers import refuse_account


def webhooks(configuration: str) -> dict[str, dict[str, Any]]:
    found = [one for one in hooks.configurations("https://x", b"ca") if one["metadata"]["name"] == configuration]
    assert len(found) == 1
    return {one["name"]: one for one in found[0]["webhooks"]}


def test_what_decides_fails_closed_and_the_early_word_fails_open_soon() -> None:
    for configuration in (names.VALIDATING, names.MUTATING):
        assert {one["failurePolicy"] for one in webhooks(configuration).values()} == {"Fail"}
    advising = webhooks(names.ADVISING)
    assert {one["failurePolicy"] for one in advising.values()} == {"Ignore"}
    assert all(one["timeoutSeconds"] <= 3 for one in advising.values())
    assert {one["sideEffects"] for one in advising.values()} == {"None"}, "dry runs are asked about, too"


def test_a_namespace_is_warned_or_denied_and_never_both() -> None:
    found = webhooks(names.ADVISING)
    assert "namespaceSelector" not in found.pop("namespaces.quota.karmada.io")
    selectors = {name: one["namespaceSelector"]["matchExpressions"] for name, one in found.items()}
    label = {"key": "quota.karmada.io/deny-at-apply", "values": ["true"]}
    assert selectors == {
        "warn.quota.karmada.io": [{**label, "operator": "NotIn"}],
        "deny.quota.karmada.io": [{**label, "operator": "In"}],
    }


def test_every_hook_has_an_address_of_its_own_and_is_expected() -> None:
    found = [(owner, one) for owner in hooks.configurations("https://x", b"ca") for one in owner["webhooks"]]
    addresses = [one["clientConfig"]["url"] for _, one in found]
    assert len(set(addresses)) == len(addresses)
    assert {(hook.kind, hook.configuration, hook.name) for hook in hooks.expected()} == {
        (owner["kind"], owner["metadata"]["name"], one["name"]) for owner, one in found
    }


ELASTIC = {"elastic.quota.karmada.io", "managed.quota.karmada.io"}


def test_status_and_deletion_are_nobodys_business_but_those_of_quotas() -> None:
    for configuration in (names.VALIDATING, names.ADVISING):
        for one in webhooks(configuration).values():
            resources = {resource for rule in one["rules"] for resource in rule["resources"]}
            operations = {operation for rule in one["rules"] for operation in rule["operations"]}
            assert operations - {"CREATE", "UPDATE"} == ({"DELETE"} if one["name"] in ELASTIC else set())
            statuses = {resource for resource in resources if resource.endswith("/status")}
            if one["name"] != hooks.WRITERS_HOOK:
                assert statuses <= {f"{resource.plural}/status" for resource in api.RESOURCES}
            conditions = {condition["name"] for condition in one["matchConditions"]}
            # Of a binding, what is untouched passes, deleted or not: see the federation tests.
            assert "not-being-deleted" in conditions or one["name"] in (hooks.BINDINGS_HOOK, hooks.WRITERS_HOOK)


def test_our_own_statuses_are_not_brought_to_us_and_everybody_elses_are() -> None:
    users = ['he said "hi"', "federation-quota-webhook"]
    configurations = hooks.configurations("https://x", b"ca", users)
    hook = next(
        one for owner in configurations for one in owner["webhooks"] if one["name"] == "karmadaquotas.quota.karmada.io"
    )
    expressions = {one["name"]: one["expression"] for one in hook["matchConditions"]}
    assert expressions["not-our-own-status"] == (
        "!(has(request.subResource) && request.subResource == 'status') || "
        '!(request.userInfo.username in ["federation-quota-webhook", "he said \\"hi\\""])'
    )


def test_a_change_of_an_elastic_quota_is_brought_to_one_of_two_hooks_and_never_to_both() -> None:
    found = webhooks(names.VALIDATING)
    conditions = {name: {one["name"]: one["expression"] for one in found[name]["matchConditions"]} for name in ELASTIC}
    administrators = conditions["elastic.quota.karmada.io"]["by-an-administrator"]
    others = conditions["managed.quota.karmada.io"]["by-somebody-else"]
    is_status = "(has(request.subResource) && request.subResource == 'status')"
    assert administrators == f"{is_status} || {others.removeprefix('!(').removesuffix(')')}"
    (managed,) = found["managed.quota.karmada.io"]["rules"]
    assert managed["resources"] == ["elasticquotas", "compositeelasticquotas"]
    assert all(rule["scope"] == "*" for name in ELASTIC for rule in found[name]["rules"])


def test_owners_are_written_at_creation_and_asked_about_again_only_where_they_change() -> None:
    hook = webhooks(names.MUTATING)[hooks.IDENTITY_HOOK]
    created = {resource for rule in hook["rules"] if rule["operations"] == ["CREATE"] for resource in rule["resources"]}
    changed = {resource for rule in hook["rules"] if rule["operations"] == ["UPDATE"] for resource in rule["resources"]}
    assert created == {one.plural for one in WORKLOADS}
    assert changed == created | {f"{one}/*" for one in created}, "a status is written with annotations"
    (condition,) = hook["matchConditions"]
    assert condition["expression"].startswith("request.operation == 'CREATE' || ")
    assert hook["sideEffects"] == "None", "dry runs are asked about, too"
    assert hook["reinvocationPolicy"] == "IfNeeded"


def test_kinds_of_ones_own_have_owners_too() -> None:
    (found,) = [
        one
        for owner in hooks.configurations("https://x", b"ca", (), [GroupResource("batch.volcano.sh", "jobs")])
        for one in owner["webhooks"]
        if one["name"] == hooks.IDENTITY_HOOK
    ]
    assert [(rule["apiGroups"], rule["resources"]) for rule in found["rules"]] == [
        (["batch.volcano.sh"], ["jobs"]),
        (["batch.volcano.sh"], ["jobs", "jobs/*"]),
    ]


def test_accounts_are_guarded_from_everybody_but_us() -> None:
    configurations = hooks.configurations("https://x", b"ca", ["ours"])
    (hook,) = [one for owner in configurations for one in owner["webhooks"] if one["name"] == hooks.ACCOUNTS_HOOK]
    assert hook["rules"][0]["resources"] == ["usageaccounts", "usageaccounts/status"]
    assert hook["rules"][0]["scope"] == "Cluster"
    assert {one["name"]: one["expression"] for one in hook["matchConditions"]}["not-by-us"] == (
        '!(request.userInfo.username in ["ours"])'
    )


async def test_whoever_is_brought_to_the_guard_of_accounts_is_refused_and_told_what_to_change() -> None:
    verdict = await refuse_account(review({}, resource="usageaccounts", name="lab.user.ann"), 0.0)
    assert (verdict.code, verdict.reason) == (403, "Forbidden")
    assert "UsageAccount lab.user.ann is written by federation-quota alone: change the limits" in verdict.message
