"""Whose a binding is: its template's owner, on the stamp of what is under an elastic leaf, and on no other."""

import copy
import json
from dataclasses import replace
from typing import Any, cast

import pytest

from federation_quota.group_resource import GroupResource
from federation_quota.identity import encode
from federation_quota.kube import codec, error, outline
from federation_quota.kube.discovery import Discovery, UnknownResourceError
from federation_quota.kube.resource import Resource
from federation_quota.stamp import OWNER_ANNOTATION, STAMP_ANNOTATION, Owner, Stamp
from tests.unit.documents import changed
from tests.unit.documents import encode as encoded
from tests.unit.test_holding import patched
from tests.unit.test_leaves import NEW, TEAM, Webhook, composite

ANN = Owner("ann", ("dev",))
BOB = Owner("bob")
FORGED = Stamp("", 0, "deployments", owner=BOB, leaf="team").encode()


def owned(owner: Owner | str | None, kind: str = "Deployment") -> dict[str, Any]:
    text = owner if isinstance(owner, str) else encode(owner) if owner else None
    annotations = {OWNER_ANNOTATION: text} if text is not None else {}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"annotations": annotations}}


def team(owner: Owner | str | None = ANN) -> Webhook:
    webhook = Webhook(composite("team", namespaces=[TEAM]))
    webhook.api.objects["web"] = owned(owner)
    return webhook


async def stamp(webhook: Webhook, new: dict[str, Any], old: dict[str, Any] | None = None) -> Stamp:
    return codec.decode_binding(json.dumps(await webhook.stored(new, old)).encode()).stamp


async def test_under_a_leaf_the_stamp_says_whose_it_is_and_nobody_can_write_it() -> None:
    forged = changed("metadata/annotations", {STAMP_ANNOTATION: FORGED}, NEW)
    for document in (NEW, forged):
        assert await stamp(team(), document) == Stamp("", 0, "deployments", owner=ANN, leaf="team")


async def test_it_stays_as_it_was_while_the_template_does_and_costs_no_read() -> None:
    webhook = team()
    stored = await webhook.stored(NEW)
    webhook.api.reads.clear()
    for written in (stored, changed("metadata/annotations", ..., stored)):
        assert (await stamp(webhook, changed("spec/replicas", 1, written), stored)).owner == ANN
    tampered = copy.deepcopy(stored)
    tampered["metadata"]["annotations"][STAMP_ANNOTATION] = FORGED
    assert (await stamp(webhook, tampered, stored)).owner == ANN
    assert webhook.api.reads == []


async def test_a_template_that_was_made_anew_by_another_is_theirs() -> None:
    webhook = team()
    stored = await webhook.stored(NEW)
    webhook.api.objects["web"] = owned(BOB)
    assert (await stamp(webhook, changed("spec/resource/uid", "another", stored), stored)).owner == BOB


async def test_what_it_was_counts_while_the_template_cannot_be_found() -> None:
    webhook = team()
    stored = await webhook.stored(NEW)
    webhook.api.objects["web"] = error.NotFoundError(404, "NotFound")
    assert (await stamp(webhook, changed("spec/resource/resourceVersion", "99", stored), stored)).owner == ANN


async def test_without_an_owner_there_is_none_and_what_is_no_owner_is_none() -> None:
    for nothing in (None, "", "nonsense", "{}"):
        assert await stamp(team(nothing), NEW) == Stamp("", 0, "deployments", leaf="team")


async def test_under_no_leaf_no_template_is_read_for_its_owner_and_nothing_is_written() -> None:
    webhook = Webhook()
    webhook.api.objects["web"] = owned(ANN)
    said = changed("spec/replicaRequirements/namespace", TEAM, NEW)  # that it has no priority class
    assert (await webhook.review(said)).patch == ()
    assert webhook.api.reads == []
    elsewhere = Webhook(composite("lab", namespaces=["b"]))
    elsewhere.api.objects["web"] = owned(ANN)
    assert (await elsewhere.review(said)).patch == ()


async def test_on_kinds_that_have_no_owners_anybody_may_have_written_one() -> None:
    webhook = team()
    narrow = replace(webhook.stamping, workloads=frozenset({GroupResource("apps", "statefulsets")}))
    verdict = await narrow(outline.decode(_raw(NEW)), None)
    text = patched(NEW, verdict.patch)["metadata"]["annotations"][STAMP_ANNOTATION]
    assert "owner" not in json.loads(text)


async def test_a_kind_that_nobody_knows_keeps_the_stamp_that_it_had_and_takes_none_from_a_client() -> None:
    webhook = team()

    class Nothing:
        async def of_object(self, api_version: str, kind: str) -> Resource:
            raise UnknownResourceError(f"{api_version} {kind}")

    blind = replace(webhook.stamping, discovery=cast(Discovery, Nothing()))
    forged = changed("metadata/annotations", {STAMP_ANNOTATION: FORGED}, NEW)
    verdict = await blind(outline.decode(_raw(forged)), None)
    found = codec.decode_binding(encoded(patched(forged, verdict.patch))).stamp
    assert (found.owner, found.resource) == (None, "")
    stored = await webhook.stored(NEW)
    changed_there = changed("spec/resource/resourceVersion", "99", stored)
    changed_there["metadata"]["annotations"][STAMP_ANNOTATION] = FORGED
    verdict = await blind(outline.decode(_raw(changed_there)), outline.decode(_raw(stored)))
    assert codec.decode_binding(encoded(patched(changed_there, verdict.patch))).stamp.resource == "deployments"


def _raw(document: dict[str, Any]) -> Any:  # noqa: ANN401
    return encoded(document)


@pytest.mark.parametrize("groups", [(), tuple(f"group-{number}" for number in range(300))])
async def test_owners_with_hundreds_of_groups_are_one_object(groups: tuple[str, ...]) -> None:
    webhook = team(Owner("ann", groups))
    one, other = [await stamp(webhook, NEW) for _ in range(2)]
    assert one.owner is other.owner
    assert one.owner == Owner("ann", groups)
