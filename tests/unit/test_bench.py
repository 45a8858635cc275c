"""The benchmarks run, and say by their exit code whether a bar was missed. How fast anything is, no test asks."""

import json
import platform
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import curve, elastic, quantity, results, steady
from bench.__main__ import SETS, main
from bench.measure import QUICK, Comparison, Effort, Findings, compare
from bench.world import Controllers, Replica, listed


def row(ratio: float, bar: float | None, *, at_least: bool = False) -> Comparison:
    return Comparison("what", "yardstick", 100 * ratio, 100, ratio, bar, at_least=at_least)


@pytest.fixture(autouse=True)
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sets whose results were written; the file itself is left alone."""
    names: list[str] = []
    monkeypatch.setattr(results, "write", lambda name, _findings: names.append(name))
    return names


def test_a_quick_run_prints_every_row_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], written: list[str]
) -> None:
    assert main(["quantity", "--quick"]) == 0
    assert not written
    printed = capsys.readouterr().out
    for what in ("ratio", "read again", "read new text", "print", "add"):
        assert what in printed


@pytest.mark.parametrize(
    ("ratio", "bar", "at_least", "code"),
    [(1.1, 1.2, False, 0), (1.3, 1.2, False, 1), (9.0, None, False, 0), (1.1, 1.2, True, 1), (1.3, 1.2, True, 0)],
)
def test_a_missed_bar_is_told_by_the_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ratio: float,
    bar: float | None,
    at_least: bool,
    code: int,
) -> None:
    def measured(_effort: Effort) -> Findings:
        return Findings([row(1.0, 1.0), row(ratio, bar, at_least=at_least)])

    monkeypatch.setattr(quantity, "run", measured)
    assert main(["quantity"]) == code
    assert ("MISSED" in capsys.readouterr().out) is bool(code)


def test_everything_is_measured_unless_sets_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], written: list[str]
) -> None:
    for name in SETS:
        monkeypatch.setattr(f"bench.{name}.run", lambda _effort: Findings([row(1.0, 1.0)]))
    assert main([]) == 0
    assert written == list(SETS)
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


def test_a_set_replaces_its_own_results_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()  # the fixture's stand-in
    path = tmp_path / "bench" / "results.json"
    results.write("b", Findings([row(1.5, 1.2)], [{"bindings": 1000, "seconds": 1.23456789}]), path)
    results.write("a", Findings([row(0.5, 0.9, at_least=True)]), path)
    first = json.loads(path.read_text())
    results.write("a", Findings([row(0.95, 0.9, at_least=True)]), path)
    second = json.loads(path.read_text())

    assert list(second["sets"]) == ["a", "b"]
    assert second["sets"]["b"] == first["sets"]["b"]
    assert second["sets"]["b"]["figures"] == [{"bindings": 1000, "seconds": 1.235}]
    [bar] = second["sets"]["b"]["bars"]
    assert (bar["ratio"], bar["bar"], bar["is_missed"]) == (1.5, "≤ 1.2", True)
    assert [one["sets"]["a"]["bars"][0]["is_missed"] for one in (first, second)] == [True, False]


def test_the_machine_is_described_and_not_named() -> None:
    described = results.machine()
    assert {"cpu", "cores", "memoryGiB", "python", "kubernetes", "karmada"} <= described.keys()
    assert platform.node() not in json.dumps(described)


@pytest.mark.parametrize(("role", "measured"), [("webhook", {"change", "admission"}), ("controllers", {"change"})])
async def test_every_size_is_measured_in_every_round(role: str, measured: set[str]) -> None:
    found = await steady.measure(role, namespaces=3, rounds=2, calls=4, sizes=(6, 600))
    assert found.keys() == measured
    for times in found.values():
        assert {size: len(rounds) for size, rounds in times.items()} == {6: 2, 600: 2}


async def test_an_admission_is_one_write_and_leaves_nothing_behind() -> None:
    async with Replica(listed(20, 4), 4) as replica:
        before = {
            place: dict(replica.observation.view.entries(place)) for place in replica.observation.view.namespaces()
        }
        await replica.admit(10)
        view = replica.observation.view
        assert replica.writes == 10
        assert {place: dict(view.entries(place)) for place in view.namespaces()} == before


async def test_a_change_reaches_the_view_and_the_status_of_its_quota() -> None:
    async with Controllers(listed(20, 4), 4) as controllers:
        version, writes = controllers.observation.view.version, controllers.writes
        await controllers.change(10)
        assert controllers.observation.view.version >= version + 10
        assert 0 < controllers.writes - writes <= 10


def test_the_picture_shows_every_line_and_nothing_outside_of_it() -> None:
    lines = [curve.Line("slow <&>", [(1000, 0.02), (100_000, 3.7)]), curve.Line("fast", [(1000, 0.01), (100_000, 0.9)])]
    panels = [curve.Panel("A", "seconds", lines, is_logarithmic=True), curve.Panel("B", "MB", lines)]
    root = ElementTree.fromstring(curve.draw(panels, across="bindings"))  # noqa: S314 - made just now
    space = "{http://www.w3.org/2000/svg}"
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert {"A", "B", "seconds", "MB", "slow <&>", "fast", "100k"} <= {one.text for one in root.iter(f"{space}text")}
    for one in root.iter(f"{space}circle"):
        assert 0 < float(one.attrib["cx"]) < width
        assert 0 < float(one.attrib["cy"]) < height


def test_the_measured_tree_has_ten_thousand_quotas_on_four_levels() -> None:
    tree, requests = elastic.make()
    assert len(tree.order) - 1 == len(tree.nodes) == 10_000
    assert {len(tree.ancestors(name)) + 1 for name in tree.nodes} == {1, 2, 3, 4}
    assert sorted(requests) == sorted(tree.leaves())
    assert elastic.written(tree, requests)["quotas"][0]["isParent"]
