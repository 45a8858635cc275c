"""What is said of a workload under a tree before it is bound: what its leaf could have, and what it never could."""

from typing import Any

import pytest

from federation_quota import forecast
from federation_quota.elastic import prospect
from federation_quota.elastic.capacity import Cluster
from federation_quota.elastic.forest import FAIR_SHARE, Forest, Root
from federation_quota.elastic.prospect import ADMISSION, MAX, MIN, RUNTIME, Room, Shortage, Wish
from federation_quota.elastic.quota import Quota, read
from federation_quota.elastic.unit import Steps
from federation_quota.resources import NOTHING, Resources


def cpu(amount: int | str) -> Resources:
    return Resources.parse({"cpu": amount})


def team(name: str = "team", request: int = 0, used: int = 0, **spec: Any) -> Quota:  # noqa: ANN401
    status = {"request": {"cpu": request}, "used": {"cpu": used}}
    metadata = {"name": name}
    return read(
        {
            "kind": "CompositeElasticQuota",
            "metadata": metadata,
            "spec": {"namespaces": [name], **spec},
            "status": status,
        }
    )


def forest(*quotas: Quota, cores: int = 20, mode: str = "Runtime") -> Forest:
    return Forest.of(quotas, [Root(mode=mode)], clusters=[Cluster("m1", {}, cpu(cores))])


def judge(
    quotas: list[Quota], wish: Wish, published: int = 0, cores: int = 20, mode: str = "Runtime"
) -> list[Shortage]:
    """What the first of them has too little of."""
    own, there = quotas[0], forest(*quotas, cores=cores, mode=mode)
    used = Resources.parse({"cpu": f"{own.used.get('cpu', 0)}m"})

    def expected(request: Steps) -> Steps:
        return prospect.expected(there, own.name, request)

    room = Room(own, {"cpu": published * 1000}, own.request, used, used_for_good=used)
    return prospect.shortages(room, wish, expected)


def test_an_idle_leaf_will_have_what_it_asks_for_although_nothing_is_published() -> None:
    assert judge([team(min={"cpu": 4})], Wish(cpu(3))) == []
    assert judge([team(min={"cpu": 4}, max={"cpu": 20})], Wish(cpu(20))) == []


def test_what_others_use_and_ask_for_is_not_there() -> None:
    busy = team("other", request=15, used=15, min={"cpu": 15})
    short = judge([team(min={"cpu": 4}, max={"cpu": 20}), busy], Wish(cpu(6)))
    assert short == [Shortage("cpu", RUNTIME, 6000, 0, 5000)]
    assert judge([team(min={"cpu": 4}, max={"cpu": 20}), busy], Wish(cpu(5))) == []


@pytest.mark.parametrize(("wanted", "is_hopeless"), [(9, False), (11, True)])
def test_beyond_its_max_it_can_have_nothing(wanted: int, is_hopeless: bool) -> None:
    own = team(request=8, used=8, min={"cpu": 4}, max={"cpu": 10})
    assert judge([own], Wish(cpu(wanted)), published=8) == [
        Shortage("cpu", MAX, wanted * 1000, 8000, 10000, is_hopeless)
    ]
    assert judge([own], Wish(cpu(2)), published=8) == []


def test_what_it_has_already_is_not_asked_for_again() -> None:
    own = team(request=8, used=8, min={"cpu": 4}, max={"cpu": 10})
    assert judge([own], Wish(cpu(8), own=cpu(6), asked=cpu(6)), published=8) == []
    (short,) = judge([own], Wish(cpu(9), own=cpu(6), asked=cpu(6)), published=8)
    assert (short.asked, short.used, short.most) == (3000, 8000, 10000)
    assert judge([own], Wish(cpu(1), own=cpu(6), asked=cpu(6)), published=0) == [], "less is never in the way"


@pytest.mark.parametrize(("wanted", "is_hopeless"), [(3, False), (5, True)])
def test_what_is_not_preemptible_has_the_min(wanted: int, is_hopeless: bool) -> None:
    own = team(request=2, used=2, min={"cpu": 4}, max={"cpu": 20})
    assert judge([own], Wish(cpu(wanted)), published=20) == []
    short = judge([own], Wish(cpu(wanted), is_preemptible=False), published=20)
    assert short == [Shortage("cpu", MIN, wanted * 1000, 2000, 4000, is_hopeless)]


def test_in_a_tree_that_shares_by_giving_way_there_is_what_was_promised() -> None:
    quotas = [team(min={"cpu": 4}), team("other", request=9, used=9, min={"cpu": 8})]
    assert judge(quotas, Wish(cpu(5)), mode=FAIR_SHARE) == [Shortage("cpu", RUNTIME, 5000, 0, 3000)]


def test_what_the_system_uses_is_not_shared() -> None:
    there = forest(team(max={"cpu": 20}))
    assert prospect.expected(there, "team", {"cpu": 20000}) == {"cpu": 20000}
    assert prospect.expected(there, "team", {"cpu": 20000}, cpu(5)) == {"cpu": 15000}


def test_a_quota_takes_in_no_more_than_it_says() -> None:
    own = team(admission={"cpu": 10})
    books = Resources.parse({"admission.cpu": 8})
    assert prospect.refusals(own, Wish(cpu(2)), books) == []
    assert prospect.refusals(own, Wish(cpu(3)), books) == [Shortage("cpu", ADMISSION, 3000, 8000, 10000)]
    assert prospect.refusals(own, Wish(cpu(11)), books)[0].is_hopeless
    assert prospect.refusals(own, Wish(cpu(8), asked=cpu(8)), books) == []
    assert prospect.refusals(team(), Wish(cpu(99)), NOTHING) == []


@pytest.mark.parametrize(
    ("short", "is_running", "text"),
    [
        (
            Shortage("cpu", MAX, 4000, 8000, 10000),
            False,
            "quota t: 4 more cpu asked for, 8 of 10 used, its max: "
            "if propagated, it is held until something of this quota ends",
        ),
        (
            Shortage("cpu", MAX, 12000, 0, 10000, is_hopeless=True),
            True,
            "quota t: 12 more cpu asked for, 0 of 10 used, its max: "
            "if propagated, the change will not reach the members until the quota is raised",
        ),
        (
            Shortage("memory", RUNTIME, 2**31, 2**30, 2**30),
            False,
            "quota t: 2Gi more memory asked for, 1Gi of the 1Gi used that it could have now: "
            "if propagated, it is held until others in its tree need less, or something ends",
        ),
        (
            Shortage("cpu", MIN, 1500, 3000, 4000),
            False,
            "quota t: 1500m more cpu asked for and not preemptible, 3 of 4 used so, its min: "
            "if propagated, it is held until something of this quota ends",
        ),
        (
            Shortage("cpu", ADMISSION, 3000, 8000, 10000),
            False,
            "quota t: 3 more cpu asked for, 8 of 10 asked for already, all that it takes in: "
            "if propagated, it is refused",
        ),
    ],
)
def test_the_word_says_what_is_short_and_what_follows(short: Shortage, is_running: bool, text: str) -> None:
    assert forecast.leaf_word("t", [short], is_running=is_running, only_warns=False) == text
    warned = forecast.leaf_word("t", [short], is_running=is_running, only_warns=True)
    assert warned.endswith(": let through, federation-quota only warns for now")
