"""Trees that share by giving way: the document's example, and what was wrong elsewhere."""

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
