"""The benchmarks run, and say by their exit code whether a bar was missed. How fast anything is, no test asks."""

import pytest

from bench import elastic, members, quantity
from bench.__main__ import main
from bench.measure import QUICK, Comparison, Effort, compare


def row(ratio: float, bar: float | None) -> Comparison:
    return Comparison("what", "yardstick", 100 * ratio, 100, ratio, bar)


def test_a_quick_run_prints_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantity", "--quick"]) == 0
    printed = capsys.readouterr().out
    for what in ("ratio", "read again", "read new text", "print", "add"):
        assert what in printed


@pytest.mark.parametrize(("ratio", "bar", "code"), [(1.1, 1.2, 0), (1.3, 1.2, 1), (9.0, None, 0)])
def test_a_missed_bar_is_told_by_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ratio: float, bar: float | None, code: int
) -> None:
    def measured(_effort: Effort) -> list[Comparison]:
        return [row(1.0, 1.0), row(ratio, bar)]

    monkeypatch.setattr(quantity, "run", measured)
    assert main(["quantity"]) == code
    assert ("MISSED" in capsys.readouterr().out) is bool(code)


def test_everything_is_measured_unless_subjects_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quantity, "run", lambda _effort: [row(1.0, 1.0)])
    monkeypatch.setattr(members, "run", lambda _effort: [row(1.0, 1.0)])
    monkeypatch.setattr(elastic, "run", lambda _effort: [row(1.0, 1.0)])
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("quantity\n")
    with pytest.raises(SystemExit) as refusal:
        main(["quality"])
    assert refusal.value.code
    assert "'quality'" in capsys.readouterr().err


def test_both_sides_see_every_argument_of_every_round() -> None:
    ours: list[int] = []
    theirs: list[int] = []

    def arguments(round_number: int, count: int) -> list[int]:
        return [round_number * count + offset for offset in range(count)]

    compare("what", ours.append, "yardstick", theirs.append, arguments, bar=None, effort=QUICK)
    assert ours == theirs == list(range(QUICK.rounds * QUICK.calls))


def test_the_measured_tree_has_ten_thousand_quotas_on_four_levels() -> None:
    tree, requests = elastic.make()
    assert len(tree.order) - 1 == len(tree.nodes) == 10_000
    assert {len(tree.ancestors(name)) + 1 for name in tree.nodes} == {1, 2, 3, 4}
    assert sorted(requests) == sorted(tree.leaves())
    assert elastic.written(tree, requests)["quotas"][0]["isParent"]
