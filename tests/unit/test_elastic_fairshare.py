"""Trees that share by giving way: the document's example, and what was wrong elsewhere."""

from hypothesis import given
from hypothesis import strategies as st

from federation_quota.elastic import fairshare
from federation_quota.elastic.fairshare import MAX, TOTAL, Quota, Rights, Workload

GPU = "quota.karmada.io/gpu-memory"


def quota(least: int, used: int, most: int | None = None) -> Quota:
    return Quota({GPU: least}, None if most is None else {GPU: most}, {GPU: used})


def workload(name: str, of: str | None, size: int = 10, priority: int = 0, *, over: bool = False) -> Workload:
    return Workload(name, of, {GPU: size}, priority, is_over_quota=over)


T1 = {"A": quota(40, 40), "B": quota(10, 40), "C": quota(30, 0)}


def names(found: list[Workload] | None) -> list[str] | None:
    return None if found is None else [one.name for one in found]


def test_a_has_a_right_to_fifteen_and_b_to_three() -> None:
    assert fairshare.guaranteed(T1, "A") == {GPU: 15}
    assert fairshare.guaranteed(T1, "B") == {GPU: 3}


def test_a_takes_one_of_bs_place_and_only_one() -> None:
    running = [
        *(workload(f"b{number}", "B", over=number > 0) for number in range(4)),
        *(workload(f"a{number}", "A") for number in range(4)),
    ]
    assert names(fairshare.choose(T1, workload("new", "A"), running)) == ["b3"]
    t2 = {"A": quota(40, 50), "B": quota(10, 30), "C": quota(30, 0)}
    assert fairshare.choose(t2, workload("more", "A"), running) is None
    assert names(fairshare.choose(t2, workload("c", "C"), running)) == ["b3"]


def test_nobody_is_taken_from_a_quota_further_than_down_to_its_part() -> None:
    quotas = {"A": quota(100, 100), "B": quota(10, 24), "C": quota(26, 0)}
    running = [workload(f"b{number}", "B", 5, over=True) for number in range(3)]
    # A may go to 119, B's part is 11: the second of them would take B from 14 to 9.
    assert names(fairshare.displaceable(quotas, workload("new", "A", 12), running)) == ["b2", "b1", "b0"]
    quotas["B"] = quota(10, 14)
    assert names(fairshare.displaceable(quotas, workload("new", "A", 12), running)) == ["b2"]


def test_a_quota_over_several_namespaces_is_one_quota() -> None:
    quotas = {"composite": quota(20, 20), "other": quota(0, 0)}
    running = [workload("n1/low", "composite", 10, 1), workload("n2/low", "composite", 10, 2)]
    assert names(fairshare.choose(quotas, workload("n1/high", "composite", 10, 9), running)) == ["n1/low"]


def test_what_may_not_be_displaced_is_not() -> None:
    fixed = Workload("b0", "B", {GPU: 10}, is_over_quota=True, may_be_displaced=False)
    assert fairshare.choose(T1, workload("new", "A"), [fixed]) is None


def test_outside_all_quotas_priority_decides_among_themselves() -> None:
    rights = Rights(T1)
    assert rights.may_displace(workload("x", None, priority=2), workload("y", None, priority=1))
    assert not rights.may_displace(workload("x", None, priority=2), workload("y", "B", priority=1, over=True))
    assert not rights.may_displace(workload("x", "A", priority=2), workload("y", None, priority=1))


def test_max_and_the_sum_of_mins_are_limits() -> None:
    quotas = {"A": quota(10, 10, most=15), "B": quota(10, 0)}
    assert fairshare.obstacle(quotas, workload("x", "A", 6)) == MAX
    assert fairshare.obstacle(quotas, workload("x", "A", 5)) is None
    assert fairshare.obstacle(quotas, workload("x", "B", 11)) == TOTAL


def test_what_the_members_do_not_have_is_not_given() -> None:
    running = [workload("b0", "B", over=True)]
    quotas = {"A": quota(40, 0), "B": quota(0, 10)}
    assert fairshare.choose(quotas, workload("new", "A", 12), running, {GPU: 1}) is None
    assert names(fairshare.choose(quotas, workload("new", "A", 11), running, {GPU: 1})) == ["b0"]
    assert fairshare.choose(quotas, workload("new", "A", 11), running, {GPU: 11}) == []


# What must hold of every such tree

SMALL = st.integers(0, 30)


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[str, Quota], Workload, list[Workload]]:
    """Quotas with what runs in them, labelled as it should be, and one that asks for more."""
    quotas: dict[str, Quota] = {}
    running: list[Workload] = []
    for name in "ABC":
        least = draw(SMALL)
        used = 0
        for number, size in enumerate(draw(st.lists(st.integers(1, 10), max_size=5))):
            used += size
            running.append(
                Workload(f"{name}{number}", name, {GPU: size}, draw(st.integers(0, 2)), used > least, f"{number}")
            )
        quotas[name] = quota(least, used)
    asking = Workload("new", draw(st.sampled_from("ABC")), {GPU: draw(SMALL)}, draw(st.integers(0, 2)), created="99")
    return quotas, asking, running


@given(situations())
def test_nobody_loses_what_it_was_promised_to_somebody_else(
    situation: tuple[dict[str, Quota], Workload, list[Workload]],
) -> None:
    quotas, asking, running = situation
    chosen = fairshare.choose(quotas, asking, running)
    if not chosen:
        return
    for one in chosen:
        assert one.is_over_quota or one.quota == asking.quota
    wanted = quotas[str(asking.quota)].used[GPU] + asking.request[GPU]
    if wanted > quotas[str(asking.quota)].min[GPU]:
        for name in quotas.keys() - {asking.quota}:
            gone = sum(one.request[GPU] for one in chosen if one.quota == name)
            last = max((one.request[GPU] for one in chosen if one.quota == name), default=0)
            assert not gone or quotas[name].used[GPU] - gone + last > quotas[name].min[GPU]


@given(situations())
def test_whoever_is_let_in_fits_and_nobody_gives_way_for_nothing(
    situation: tuple[dict[str, Quota], Workload, list[Workload]],
) -> None:
    quotas, asking, running = situation
    chosen = fairshare.choose(quotas, asking, running)
    if chosen is None:
        return
    total = sum(one.min[GPU] for one in quotas.values())
    used = sum(one.used[GPU] for one in quotas.values()) - sum(one.request[GPU] for one in chosen)
    assert used + asking.request[GPU] <= total or not asking.request[GPU]
    for one in chosen:
        assert used + one.request[GPU] + asking.request[GPU] > total
