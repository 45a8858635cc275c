"""What a quota's status says of member clusters, from what is seen of them and what it said before."""

from collections.abc import Mapping
from typing import Any

from federation_quota import karmadaquota, member_usage
from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Books
from federation_quota.ledger.view import View
from federation_quota.member_usage import Figures, Sighting, Watch
from federation_quota.resources import NOTHING, Resources

SEEN = "2026-01-01T12:00:00Z"
LATER = "2026-01-01T12:00:07Z"


def amounts(cpu: str | int) -> Resources:
    return Resources.parse({"cpu": cpu})


def account(status: Mapping[str, Any] | None = None, policy: str = "Charge", **hard: str) -> Account:
    return karmadaquota.read(
        {
            "metadata": {"namespace": "shop", "name": "q", "uid": "u", "resourceVersion": "1", "generation": 1},
            "spec": {"hard": hard or {"cpu": "10", "services": "5"}, "memberUsage": {"policy": policy}},
            "status": dict(status or {}),
        }
    )


def compiled(
    sighting: Sighting,
    before: Figures | None = None,
    watch: Watch | None = None,
    now: float = 0,
    *,
    is_old: bool = False,
) -> list[Figures]:
    known = {before.name: before} if before else {}
    return member_usage.compile_figures(
        account(), known, [sighting], watch or Watch(""), now=now, grace_seconds=10, is_old=lambda _text: is_old
    )


def test_what_is_observed_beyond_what_is_bound_is_unbound_after_the_grace() -> None:
    watch = Watch("")
    sighting = Sighting("m1", amounts(1), amounts(3), SEEN)
    assert [one.unbound for one in compiled(sighting, watch=watch)] == [NOTHING]
    assert member_usage.next_change(watch, 0, 10) == 10
    assert [one.unbound for one in compiled(sighting, watch=watch, now=10)] == [amounts(2)]


def test_a_cluster_that_is_seen_and_has_nothing_is_not_listed_one_that_is_not_seen_is() -> None:
    assert compiled(Sighting("m1", NOTHING, NOTHING, SEEN)) == []
    (unseen,) = compiled(Sighting("m1", NOTHING, None, problem="it is in Pull mode"))
    assert unseen == Figures("m1", observed=None, is_stale=True, message="it is in Pull mode")
    (entry,) = member_usage.write(account(), [unseen])
    assert entry == {"name": "m1", "bound": {"cpu": "0"}, "stale": True, "message": "it is in Pull mode"}
    finding = member_usage.members_ready([unseen])
    assert not finding.holds
    assert "m1 is not observed (it is in Pull mode)" in finding.message


def test_a_member_that_was_never_seen_since_the_start_keeps_what_the_status_said() -> None:
    before = Figures("m1", amounts(1), amounts(4), amounts(3), SEEN)
    (pending,) = compiled(Sighting("m1", amounts(1)), before)
    assert pending == before, "nothing is known yet: it stands as it stood"
    (lost,) = compiled(Sighting("m1", amounts(1), problem="no answer"), before)
    assert (lost.observed, lost.unbound, lost.last_seen, lost.is_stale) == (amounts(4), amounts(3), SEEN, True)


def test_nothing_more_is_charged_for_a_member_that_is_out_of_reach_but_what_was_stays() -> None:
    """Its bindings move elsewhere: whether their pods still run there nobody knows."""
    watch = Watch("")
    fresh = Sighting("m1", amounts(3), amounts(4), SEEN)
    before = compiled(fresh, watch=watch)[0]
    before = compiled(fresh, before, watch, now=20)[0]
    assert before.unbound == amounts(1)
    (moved,) = compiled(Sighting("m1", NOTHING, amounts(4), SEEN, "no answer"), before, watch, now=30)
    assert moved.unbound == amounts(1)
    (still,) = compiled(Sighting("m1", NOTHING, amounts(4), SEEN, "no answer"), moved, watch, now=300)
    assert still.unbound == amounts(1)
    assert compiled(Sighting("m1", NOTHING, NOTHING, LATER), still, watch, now=301) == []


def test_a_look_that_shows_nothing_new_changes_nothing_until_it_is_old() -> None:
    before = Figures("m1", amounts(1), amounts(1), NOTHING, SEEN)
    sighting = Sighting("m1", amounts(1), amounts(1), LATER)
    assert compiled(sighting, before) == [before]
    assert [one.last_seen for one in compiled(sighting, before, is_old=True)] == [LATER]
    assert [one.last_seen for one in compiled(Sighting("m1", amounts(1), amounts(2), LATER), before)] == [LATER]


def test_what_is_written_is_read_back() -> None:
    figures = [
        Figures("m1", amounts(1), amounts("1500m"), amounts("500m"), SEEN),
        Figures("m2", NOTHING, None, NOTHING, "", is_stale=True, message="no way"),
    ]
    written = member_usage.write(account(), figures)
    assert list(member_usage.read({"clusters": written}).values()) == figures
    assert "services" not in written[0]["bound"], "objects are the federation's"


def test_what_is_unbound_counts_as_used_where_the_quota_charges_it() -> None:
    figures = [
        Figures("m1", amounts(1), amounts(3), amounts(2), SEEN),
        Figures("m2", NOTHING, amounts(1), amounts(1), SEEN),
    ]
    for policy, used in (("Charge", amounts(3)), ("Report", NOTHING)):
        charged = karmadaquota.with_members(account(policy=policy), figures, [], SEEN)
        assert Books(charged, View()).used == used
        stored = karmadaquota.status(charged, used)
        assert stored["unbound"] == {"cpu": "3"}
        assert (
            karmadaquota.read(
                {
                    "metadata": {"namespace": "shop", "name": "q", "uid": "u", "resourceVersion": "2"},
                    "spec": {"hard": {"cpu": "10"}, "memberUsage": {"policy": policy}},
                    "status": stored,
                }
            ).unbound
            == used
        )


def test_conditions_keep_their_time_until_they_turn() -> None:
    over = [Figures("m1", amounts(1), amounts(3), amounts(2), SEEN)]
    first = account(policy="Report")
    findings = [member_usage.members_ready(over), member_usage.unbound_usage(first, over, is_charged=False)]
    status = karmadaquota.quota(karmadaquota.with_members(first, over, findings, SEEN)).status
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [
        ("MembersReady", "True"),
        ("UnboundUsage", "True"),
    ]
    assert "m1 (cpu: 3 observed, 1 bound)" in status["conditions"][1]["message"]
    findings = [member_usage.members_ready(()), member_usage.unbound_usage(first, (), is_charged=False)]
    again = karmadaquota.with_members(account(status), (), findings, LATER)
    conditions = karmadaquota.quota(again).status["conditions"]
    assert [one["lastTransitionTime"] for one in conditions] == [SEEN, LATER]
    assert "clusters" not in karmadaquota.quota(again).status
