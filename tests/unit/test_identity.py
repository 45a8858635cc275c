"""Who owns a workload: whoever created it, whatever they write, and whatever others do to it later."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota import identity
from federation_quota.group_resource import WORKLOADS, GroupResource, by_group
from federation_quota.identity import LONGEST_TEXT, MOST_GROUPS, Identities, IdentityError
from federation_quota.kube import codec
from federation_quota.stamp import OWNER_ANNOTATION, Owner
from tests.unit.test_holding import patched
from webhook.identity import IdentityReview
from webhook.review import Verdict

ANN = '{"user":"ann","groups":["dev","ops"]}'
BOB = '{"user":"bob","groups":[]}'
HER_GROUPS = ("ops", "dev", "system:authenticated", "dev")


def template(owner: str | None = None, **annotations: str) -> dict[str, Any]:
    said = annotations | ({OWNER_ANNOTATION: owner} if owner is not None else {})
    metadata: dict[str, Any] = {"name": "web"} | ({"annotations": said} if said else {})
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {}}


async def review(
    new: dict[str, Any],
    old: dict[str, Any] | None = None,
    *,
    user: str = "ann",
    groups: tuple[str, ...] = HER_GROUPS,
    identities: Identities = Identities(administrators=frozenset({"steward"})),  # noqa: B008 - frozen
) -> Verdict:
    request = codec.AdmissionRequest(
        uid="u",
        operation="UPDATE" if old else "CREATE",
        kind=codec.GroupVersionKind(),
        resource=codec.GroupVersionResource("apps", "v1", "deployments"),
        name="web",
        user_info=codec.UserInfo(user, groups),
        object=msgspec.Raw(json.dumps(new).encode()),
        old_object=msgspec.Raw(json.dumps(old).encode()) if old else msgspec.Raw(b"null"),
    )
    return await IdentityReview(identities)(request, 0.0)


async def stored(new: dict[str, Any], old: dict[str, Any] | None = None, **more: Any) -> str | None:  # noqa: ANN401
    """What the annotation says when it is stored."""
    verdict = await review(new, old, **more)
    assert verdict.is_allowed, verdict.message
    found: dict[str, str] = patched(new, verdict.patch)["metadata"].get("annotations") or {}
    return found.get(OWNER_ANNOTATION)


async def test_whoever_creates_a_template_owns_it_whatever_they_write() -> None:
    for forged in (None, BOB, "", "nonsense", '{"user":"ann","groups":["admins"]}'):
        assert await stored(template(forged)) == ANN
        assert await stored(template(forged, other="stays")) == ANN


async def test_nothing_is_patched_where_it_says_the_truth_already() -> None:
    assert (await review(template(ANN))).patch == ()
    assert (await review(template(BOB), template(BOB))).patch == ()


async def test_other_annotations_stay() -> None:
    new = template(BOB, note="mine")
    after = patched(new, (await review(new)).patch)["metadata"]["annotations"]
    assert after == {"note": "mine", OWNER_ANNOTATION: ANN}


@pytest.mark.parametrize("written", [None, "", BOB, "nonsense"])
@pytest.mark.parametrize("who", ["ann", "bob", "federation-quota-controllers", "kubernetes-admin"])
async def test_later_changes_keep_the_owner_whoever_makes_them(written: str | None, who: str) -> None:
    assert await stored(template(written), template(ANN), user=who, groups=("system:masters",)) == ANN
    assert await stored(template(written, note="mine"), template(ANN), user=who) == ANN


async def test_what_had_no_owner_is_not_taken_by_a_change() -> None:
    assert await stored(template(ANN), template()) is None
    assert await stored(template(ANN, note="mine"), template(note="mine")) is None


async def test_those_who_are_nobody_own_nothing_and_cannot_write_for_others() -> None:
    robots = Identities(
        ownerless_users=frozenset({"system:serviceaccount:ci:runner"}),
        ownerless_groups=frozenset({"system:serviceaccounts:argocd"}),
    )
    for user, groups in (
        ("system:serviceaccount:ci:runner", ()),
        ("system:serviceaccount:argocd:controller", ("system:serviceaccounts", "system:serviceaccounts:argocd")),
    ):
        assert await stored(template(), user=user, groups=groups, identities=robots) is None
        assert await stored(template(BOB), user=user, groups=groups, identities=robots) is None
    other = await stored(template(), user="system:serviceaccount:ci:other", groups=("ci",), identities=robots)
    assert other == '{"user":"system:serviceaccounts:ci","groups":["ci"]}'


def test_the_service_accounts_of_a_namespace_are_one_owner_unless_each_is_to_be_one() -> None:
    groups = ("system:serviceaccounts", "system:serviceaccounts:ci")
    names = [f"system:serviceaccount:ci:robot-{number}" for number in range(3)]
    assert {Identities().owner(name, groups) for name in names} == {Owner("system:serviceaccounts:ci", groups)}
    each = Identities(joins_service_accounts=False)
    assert [each.owner(name, groups) for name in names] == [Owner(name, groups) for name in names]
    assert Identities().owner("system:serviceaccountant", ()) == Owner("system:serviceaccountant")


async def test_administrators_of_owners_may_hand_over_adopt_and_restore() -> None:
    assert await stored(template(BOB), template(ANN), user="steward") == BOB
    assert await stored(template(BOB), template(), user="steward") == BOB
    assert await stored(template(), template(ANN), user="steward") is None
    assert await stored(template(BOB), user="steward") == BOB
    assert await stored(template(), user="steward", groups=()) == '{"user":"steward","groups":[]}'
    assert await stored(template("what is there"), template("what is there"), user="steward") == "what is there"


@pytest.mark.parametrize(
    "text", ["", "ann", "[]", "{}", '{"user":""}', '{"user":1}', '{"user":"ann","groups":"dev"}', "[" * 10_000]
)
async def test_what_they_write_must_be_an_owner(text: str) -> None:
    verdict = await review(template(text), template(ANN), user="steward")
    assert not verdict.is_allowed
    assert verdict.code == 403
    with pytest.raises(IdentityError):
        identity.decode(text)


async def test_nothing_is_cut_short_and_who_is_in_too_many_groups_is_told_what_can_be_done() -> None:
    most = tuple(f"g{number:04}" for number in range(MOST_GROUPS))
    kept = await stored(template(), groups=most)
    assert kept is not None
    assert identity.decode(kept) == Owner("ann", most)
    for groups in ((*most, "one more"), ("x" * LONGEST_TEXT,)):
        verdict = await review(template(), groups=groups)
        assert (verdict.is_allowed, verdict.code) == (False, 403)
        assert "--ignored-groups" in verdict.message
    fewer = Identities(ignored_groups=("g00*", "one more"))
    owner = fewer.owner("ann", (*most, "one more"))
    assert owner == Owner("ann", most[100:])


async def test_nobody_is_no_owner() -> None:
    verdict = await review(template(), user="")
    assert not verdict.is_allowed


@given(st.text(min_size=1, max_size=20), st.lists(st.text(max_size=20), max_size=20))
def test_what_was_written_is_read_again_whatever_the_order_of_groups(user: str, groups: list[str]) -> None:
    one, other = (Identities().owner(user, order) for order in (groups, reversed(groups)))
    assert one is not None
    assert one == other
    assert identity.decode(identity.encode(one)) == one


def test_kinds_are_named_one_by_one() -> None:
    assert GroupResource.parse("deployments.apps") == GroupResource("apps", "deployments")
    assert GroupResource.parse("pods") == GroupResource("", "pods")
    assert GroupResource.parse("jobs.batch.volcano.sh") == GroupResource("batch.volcano.sh", "jobs")
    assert [GroupResource.parse(str(one)) for one in WORKLOADS] == list(WORKLOADS)
    for wrong in ("", "*", "*.apps", "Deployments.apps", "deployments/status", "deployments..apps", ".apps", "a b"):
        with pytest.raises(ValueError, match=r"PLURAL\.GROUP"):
            GroupResource.parse(wrong)
    assert by_group(WORKLOADS)["batch"] == ["cronjobs", "jobs"]
