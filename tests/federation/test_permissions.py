"""Least privilege, proved: the whole suite ran under exactly the roles that the chart renders.

The federation API server's audit log has every request of the product's identities. Nothing was refused, and nothing is
granted that was not used. The second half is only a statement about a whole run, and is skipped in others.
"""

import asyncio
import os
from pathlib import Path

import pytest
import yaml

from controllers.authority import SECRETS
from federation_quota import api, names
from federation_quota.kube import config
from federation_quota.kube.client import Client
from federation_quota.kube.mirrors import ObjectMirror
from federation_quota.kube.presence import sweep, take_roll
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.roster import MEMORY_SECONDS, Roster
from localfed import audit
from localfed import quota as product
from localfed.federation import Federation
from suite.lanes import WHOLE
from tests.federation.permissions import Grant, Use, grants, refused, uses
from tests.federation.stage import eventually
from tests.kube.eventually import eventually as until

pytestmark = [pytest.mark.federation, pytest.mark.alone, pytest.mark.last(2)]

# Asked for by a test, to see what happens where the roles do not name a kind.
PROVOKED = {(product.WEBHOOK, "get", "policy.karmada.io", "propagationpolicies")}

# Not used, and needed.
UNSEEN = {
    # The controllers make the role by which tenants see quotas, and nobody can give what they do not have.
    *((product.CONTROLLERS, "get", "quota.karmada.io", resource.plural) for resource in api.RESOURCES),
    # A local federation serves none.
    (product.CONTROLLERS, "get", "cluster.karmada.io", "clusters/proxy"),
}

# What users propagate: an administrator's list, with one set of verbs for all of it.
TEMPLATES = {"", "apps", "batch"}


def granted() -> set[Grant]:
    return grants(one for one in yaml.safe_load_all(product.ACCESS.read_text()) if one)


async def test_leases_of_the_long_gone_are_swept_under_the_controllers_roles(federation: Federation) -> None:
    """Minutes after they died: here the clock is ours, all else is real."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "webhook-long-gone", "namespace": product.NAMESPACE, "labels": {"test": "gone"}},
        "spec": {"holderIdentity": "long-gone", "leaseDurationSeconds": 10},
    }
    federation.api.apply(lease)
    clock = [0.0]
    roster = Roster(lambda: clock[0])
    path = _flag(federation, "quota-controllers-1", "--kubeconfig")
    async with Client(await config.load(kubeconfig=path)) as client:
        await take_roll(client, product.NAMESPACE, "test=gone", roster)
        clock[0] += MEMORY_SECONDS + 100
        await take_roll(client, product.NAMESPACE, "test=gone", roster)
        assert await sweep(client, product.NAMESPACE, roster) == 1


async def test_a_mirror_that_may_read_by_name_alone_outlives_its_watch(federation: Federation) -> None:
    """As the webhook's of its authority, whose watches end after five minutes; here, after one second."""
    mirror = ObjectMirror()
    path = _flag(federation, "quota-webhook-1", "--host-kubeconfig")
    async with Client(await config.load(kubeconfig=path)) as client:
        reflector = Reflector(
            client,
            SECRETS,
            decode=ObjectMirror.decode,
            sink=mirror,
            namespace=product.NAMESPACE,
            field_selector=f"metadata.name={names.AUTHORITY_SECRET}",
            watch_seconds=1,
        )
        task = asyncio.create_task(reflector.run())
        await until(lambda: reflector.reconnects >= 1, "its watch has ended")
        metadata = {"name": names.AUTHORITY_SECRET, "namespace": product.NAMESPACE, "annotations": {"test": "seen"}}
        federation.api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        await until(lambda: "seen" in str(mirror.objects), "and it goes on")
        task.cancel()


def test_nothing_was_refused(federation: Federation) -> None:
    eventually(lambda: any(audit.entries(federation.directory)), what="there is an audit log")
    found = {use for use in refused(audit.entries(federation.directory)) if use[:4] not in PROVOKED}
    assert not found, "the chart's roles lack these"


def test_every_use_is_of_a_grant_that_the_chart_renders(federation: Federation) -> None:
    """Otherwise the identities have rights from elsewhere, and the roles prove nothing."""
    allowed = granted()
    found = {use for use in uses(audit.entries(federation.directory)) if not any(one.covers(use) for one in allowed)}
    assert not found


def test_nothing_is_granted_that_was_never_used(federation: Federation, request: pytest.FixtureRequest) -> None:
    missing = _missing_modules(request.session)
    if missing:
        pytest.skip(f"only a part of the suite ran: not {', '.join(missing)}")
    done = uses(audit.entries(federation.directory))
    unused = {one for one in granted() if not any(map(one.covers, done)) and not _is_excused(one)}
    unused -= {one for one in unused if _is_template(one) and _is_used_otherwise(one, done)}
    assert not unused, "\n".join(sorted(map(str, unused)))


def _flag(federation: Federation, process: str, flag: str) -> str:
    return next(one.partition("=")[2] for one in federation.spec(process).argv if one.startswith(f"{flag}="))


def _is_excused(grant: Grant) -> bool:
    return (grant.user, grant.verb, grant.group, grant.resource) in UNSEEN


def _is_template(grant: Grant) -> bool:
    return not grant.name and not grant.namespace and grant.group in TEMPLATES and grant.resource != "events"


def _is_used_otherwise(grant: Grant, done: set[Use]) -> bool:
    """The kind with another verb, and the verb on another kind."""
    ours = [use for use in done if use.user == grant.user and use.group in TEMPLATES]
    has_kind = any((use.group, use.resource) == (grant.group, grant.resource) for use in ours)
    return has_kind and any(use.verb == grant.verb and use.resource != "events" for use in ours)


def _missing_modules(session: pytest.Session) -> list[str]:
    """The modules of this folder that are not, or not wholly, part of the run."""
    if os.environ.get(WHOLE):
        return []  # the suite has run all of them before, in another lane
    options = session.config.option
    is_partial = options.markexpr not in ("", "federation")  # all here is of the federation
    if options.keyword or is_partial or any("::" in argument for argument in session.config.args):
        return ["what was left out on the command line"]
    running = {item.path for item in session.items}
    return sorted(path.stem for path in Path(__file__).parent.glob("test_*.py") if path not in running)
