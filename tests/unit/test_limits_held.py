"""Whom the limits of users and groups keep waiting: each by itself, and several beside each other."""

from dataclasses import replace

from controllers.limits import Limits
from federation_quota import waiting
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding
from federation_quota.kube.mirrors import BindingMirror, claim
from federation_quota.ledger.audit import Audit
from federation_quota.limits import usage
from federation_quota.limits.hierarchy import ROOT
from federation_quota.limits.scheme import NO_LIMITS, Schemes
from federation_quota.limits.subject import USER, Subject
from federation_quota.resources import Resources
from federation_quota.stamp import Owner, Stamp
from tests.unit import waiters
from tests.unit.limits import ANN, BOB, LEAF, TREE, limited, schemes

FIVE = schemes({ROOT: [limited("ann", cpu=5), {"groups": ["ops"], "maxApplications": 1}]})


def made(name: str, cpu: int, owner: Owner | None = ANN, *, held: bool = True, version: int = 10) -> Binding:
    found = waiters.binding(name, cpu, version=version, is_held=held, is_suspended=held)
    return replace(
        found, demand=Resources.parse({"cpu": cpu, "pods": cpu}), stamp=Stamp(leaf=LEAF, owner=owner), version=version
    )


def known(*bindings: Binding, limits: Schemes = FIVE, is_warning_only: bool = False) -> Limits:
    observation = Observation()
    mirror = BindingMirror(observation)
    found = Limits(observation, mirror, Audit(), is_warning_only=is_warning_only)
    found.limit(limits)
    mirror.replace(bindings, 20)
    return found


def held(limits: Limits) -> list[Binding]:
    return [one for one in limits._bindings.bindings.values() if one.is_held]


def hindered(limits: Limits, tree: str = TREE) -> list[str]:
    return sorted(name.removeprefix("test/") for name in limits.hindered(tree, held(limits)))


def test_who_would_go_beyond_a_limit_waits_and_is_told_for_what() -> None:
    found = known(made("runs", 3, held=False), made("small", 2), made("large", 3), made("bobs", 9, BOB))
    assert hindered(found) == ["large-deployment"]
    (reason,) = found.hindered(TREE, held(found)).values()
    assert reason.startswith(
        "exceeded limit of user ann in tree lab, in the whole tree: requested: cpu=3, used: cpu=3, limited: cpu=5"
    )


def test_each_is_looked_at_by_itself_and_together_they_go_as_far_as_there_is_room() -> None:
    found = known(made("one", 3), made("two", 3), made("three", 2), made("nobodys", 9, None))
    assert hindered(found) == []
    names = [one.template.name for one in found.fitting(TREE, held(found))]
    assert names == ["one", "three", "nobodys"], "one that does not fit keeps nobody waiting"


def test_a_group_counts_as_a_user_does() -> None:
    found = known(made("runs", 1, Owner("eve", ("ops",)), held=False), made("bobs", 1, Owner("bob", ("ops",))))
    assert hindered(found) == ["bobs-deployment"]


def test_where_there_are_no_limits_or_they_only_warn_nobody_waits() -> None:
    large = made("large", 9)
    assert hindered(known(large), "other") == []
    assert hindered(known(large, limits=NO_LIMITS)) == []
    warned = known(large, is_warning_only=True)
    assert hindered(warned) == []
    assert warned.fitting(TREE, [large]) == [large]


def test_who_was_refused_clusters_by_a_limit_waits_for_it() -> None:
    """Its copies cost more than was reserved when it was made."""
    stuck = replace(made("web", 3, held=False), scheduled_reason=waiting.QUOTA_EXCEEDED)
    found = known(stuck, made("runs", 1, held=False))
    wish = replace(claim(stuck), charge=Resources.parse({"cpu": 6, "pods": 6}))
    subject = Subject(TREE, USER, "ann")
    listed = replace(waiters.waiter("web", 6), binding=str(stuck.key), claim=wish)
    stored = usage.manifest(subject)
    stored["metadata"] |= {"uid": "u", "resourceVersion": "15"}
    found.accounts.upsert(usage.read({**stored, "status": {"waiting": waiting.write([listed])}}))
    assert hindered(found) == ["web-deployment"]
    found._bindings.upsert(replace(stuck, scheduled_reason="", version=21))
    assert hindered(found) == [], "what is stored of it has its room"
