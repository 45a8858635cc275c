"""What a tenant may do who has the built-in role `admin` in a namespace, as Karmada has it, and what not.

Two tenants, each in a namespace of their own under one tree; the first tries everything.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from federation_quota import api, names
from federation_quota.hooks import DENY_AT_APPLY_LABEL
from federation_quota.stamp import HELD_LABEL, STAMP_ANNOTATION, TENANT_LABEL
from localfed.federation import Federation
from tests.federation.manifests import DUPLICATED, deployment, policy, quota
from tests.federation.people import Person, administrator, tenant
from tests.federation.stage import Stage, eventually
from tests.federation.teams import Teams, sharing

pytestmark = pytest.mark.federation

GROUP = "quota.karmada.io"
WRITING = ("create", "update", "patch", "delete", "deletecollection")
READING = ("get", "list", "watch")
OURS = tuple(resource.plural for resource in api.RESOURCES)


@dataclass(frozen=True)
class Town:
    """Two tenants."""

    teams: Teams
    ann: Person  # administers mine
    mine: Stage
    hers: Stage


@pytest.fixture
def town(federation: Federation) -> Iterator[Town]:
    with sharing(federation, {"mine": "10", "hers": "10"}, total={"cpu": "20"}) as teams:
        mine, hers = teams.stages["mine"], teams.stages["hers"]
        for stage in (mine, hers):
            stage.apply(quota("team", {"cpu": "10"}), policy(DUPLICATED))
            stage.quota_active("team")
        yield Town(teams, tenant(mine, "ann", "dev"), mine, hers)


def refused(person: Person, *arguments: str) -> None:
    said = person.refusal(*arguments)
    assert "orbidden" in said, (arguments, said or "it was done")


def test_a_tenant_reads_what_is_theirs_and_nothing_of_others(town: Town) -> None:
    ann = town.ann
    assert "team" in ann("get", "karmadaquotas")
    assert "mine" in ann("get", "elasticquotas")
    ann("describe", "karmadaquota", "team")
    elsewhere = ann.at(town.hers.namespace)
    for kind in ("karmadaquotas", "elasticquotas"):
        refused(elsewhere, "get", kind)
        refused(ann, "get", kind, "--all-namespaces")
    for kind in ("resourcebindings.work.karmada.io", "deployments.apps", "events"):
        refused(elsewhere, "get", kind)
    for kind in ("quotatrees", "compositeelasticquotas", "usageaccounts"):
        refused(ann, "get", kind)
        refused(ann, "get", kind, "anything")


def test_no_role_of_a_tenant_lets_them_write_what_is_ours(town: Town) -> None:
    for kind in OURS:
        for verb in WRITING:
            for resource in (f"{kind}.{GROUP}", f"{kind}.{GROUP}/status"):
                assert not town.ann.may(verb, resource), (verb, resource)
    refused(town.ann, "patch", "karmadaquota", "team", "--type=merge", "-p", '{"spec":{"hard":{"cpu":"1k"}}}')
    refused(town.ann, "patch", "elasticquota", "mine", "--type=merge", "-p", '{"spec":{"min":{"cpu":"20"}}}')
    refused(town.ann, "delete", "karmadaquota", "team")


def test_a_tenant_cannot_give_themselves_more(town: Town) -> None:
    """They make roles in their namespace, of what they have already."""
    ann = town.ann
    assert ann.may("create", "roles.rbac.authorization.k8s.io")
    refused(ann, "create", "role", "mighty", "--verb=update", "--resource=karmadaquotas.quota.karmada.io")
    refused(ann, "create", "rolebinding", "mighty", "--clusterrole=cluster-admin", "--user=ann")
    for role in ("federation-quota-webhook", "federation-quota-controllers"):
        refused(ann, "create", "rolebinding", role, f"--clusterrole={role}", "--user=ann")


def test_a_tenant_cannot_switch_the_webhook_off_or_slip_by(town: Town) -> None:
    ann = town.ann
    for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations", "customresourcedefinitions"):
        for verb in ("get", *WRITING):
            assert not ann.may(verb, kind), (verb, kind)
    for name in (names.VALIDATING, names.ADVISING):
        refused(ann, "delete", "validatingwebhookconfiguration", name)
    refused(ann, "delete", "mutatingwebhookconfiguration", names.MUTATING)
    for label in (f"{DENY_AT_APPLY_LABEL}=false", f"{TENANT_LABEL}=hers"):
        refused(ann, "label", "--overwrite", "namespace", town.mine.namespace, label)
    system = ann.at("federation-quota-system")
    for verb, kind in (("get", "secrets"), ("update", "leases"), ("delete", "leases"), ("create", "leases")):
        assert not system.may(verb, kind), (verb, kind)
    for user in ("federation-quota-webhook", "federation-quota-controllers", "steward"):
        refused(ann, "get", "deployments", f"--as={user}")


def test_a_tenant_cannot_write_the_bindings_that_quota_is_counted_by(town: Town) -> None:
    ann, mine = town.ann, town.mine
    ann.apply(deployment("web", 2, "1"))
    eventually(lambda: mine.binding("web") is not None, what="it is bound")
    name = "web-deployment"
    patch = ["patch", "resourcebinding", name, "--type=merge", "-p"]
    complete = {"conditions": [{"type": "Complete", "status": "True"}]}
    done = {"aggregatedStatus": [{"clusterName": "m1", "status": complete}]}
    forged = json.dumps({"owner": {"user": "bob"}, "class": "", "priority": 0, "resource": "deployments"})
    for attempt in (
        [*patch, '{"spec":{"replicas":0}}'],
        [*patch, '{"spec":{"replicaRequirements":{"resourceRequest":null}}}'],
        [*patch, '{"spec":{"suspension":null}}'],
        [*patch, '{"spec":{"clusters":[{"name":"m1","replicas":1}]}}'],
        [*patch, '{"metadata":{"finalizers":null}}'],
        [*patch, json.dumps({"status": done}), "--subresource=status"],
        ["annotate", "--overwrite", "resourcebinding", name, f"{STAMP_ANNOTATION}={forged}"],
        ["annotate", "resourcebinding", name, f"{STAMP_ANNOTATION}-"],
        [*patch, json.dumps({"metadata": {"labels": {HELD_LABEL: "true"}}})],
    ):
        said = ann.refusal(*attempt)  # by the guard, or by who looks at stamps and marks before it
        assert "denied the request" in said, (attempt, said or "it was done")
    found = mine.binding("web")
    assert found is not None
    assert found["spec"]["replicas"] == 2
    copy = {**found, "metadata": {"name": "mine", "namespace": mine.namespace}}
    said = ann.refusal("create", "-f", "-", manifest=copy)
    assert "is what quota is counted by" in said


def test_works_are_out_of_a_tenants_reach(town: Town) -> None:
    for member in town.mine.federation.members:
        space = town.ann.at(f"karmada-es-{member}")
        for verb in (*READING, *WRITING):
            assert not space.may(verb, "works.work.karmada.io"), (verb, member)


@pytest.mark.parametrize("role", ["view", "edit"])
def test_the_other_roles_read_the_same_and_write_no_more(town: Town, role: str) -> None:
    person = tenant(town.mine, f"{role}-er", role=role)
    eventually(partial(person.may, "get", f"karmadaquotas.{GROUP}"), what="quotas are seen")
    for kind in OURS:
        for verb in WRITING:
            assert not person.may(verb, f"{kind}.{GROUP}"), (verb, kind)


def test_accounts_are_the_systems_alone(federation: Federation) -> None:
    """Even an administrator makes none and changes none."""
    account = {
        "apiVersion": "quota.karmada.io/v1alpha1",
        "kind": "UsageAccount",
        "metadata": {"name": "lab.user.ann"},
        "spec": {"tree": "lab", "kind": "User", "name": "ann"},
    }
    root = administrator(federation, "default")
    assert "is written by federation-quota alone" in root.refusal("create", "-f", "-", manifest=account)
    ours = ["--as=federation-quota-webhook", "--as-group=system:masters"]
    root("create", "-f", "-", *ours, manifest=account)
    try:
        for more in ([], ["--subresource=status"]):
            patch = ["patch", "usageaccount", "lab.user.ann", "--type=merge", "-p", '{"status":{"summary":"nothing"}}']
            assert "is written by federation-quota alone" in root.refusal(*patch, *more)
    finally:
        root("delete", "usageaccount", "lab.user.ann")
