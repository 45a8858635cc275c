"""The drawn example of `elastic.md`: its numbers are the engine's, of the very manifests that the page links to."""

import re

import pytest
import yaml

from federation_quota.elastic import quota as quotas
from federation_quota.elastic.forest import Forest, read_root
from federation_quota.elastic.runtime import Runtimes
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "elastic.md").read_text()
LAB = ROOT / "examples" / "lab"
CORE = 1000  # cpu is shared in thousandths
DRAWN = 2  # cpu for each character

_ROW = re.compile(r"^\| ([a-z][^|]+) \| (\d+) \|(.*)\|$", re.MULTILINE)
_CELL = re.compile(r"asks (\d+), may use (\d+)")


def forest() -> Forest:
    documents = [one for one in yaml.safe_load_all((LAB / "quotas.yaml").read_text()) if one]
    return Forest.of(map(quotas.read, documents), [read_root(yaml.safe_load((LAB / "tree.yaml").read_text()))])


def columns() -> list[str]:
    head = next(line for line in PAGE.splitlines() if line.startswith("| | there is |"))
    return [one.strip() for one in head.strip("|").split("|")[2:]]


def rows() -> list[tuple[str, int, dict[str, str]]]:
    found = [(one[1], int(one[2]), [cell.strip() for cell in one[3].split("|")]) for one in _ROW.finditer(PAGE)]
    return [(title, total, dict(zip(columns(), cells, strict=True))) for title, total, cells in found]


def runtimes(total: int, cells: dict[str, str]) -> Runtimes:
    asks = {name: {"cpu": int(one[1]) * CORE} for name, cell in cells.items() if (one := _CELL.fullmatch(cell))}
    return Runtimes(forest().tree("lab", {"cpu": total * CORE}), asks)


def test_the_page_tells_the_whole_story() -> None:
    assert [total for _, total, _ in rows()] == [100, 100, 50]
    assert set(columns()) == set(forest().quotas)


@pytest.mark.parametrize(("title", "total", "cells"), rows())
def test_what_each_may_use_is_what_the_engine_says(title: str, total: int, cells: dict[str, str]) -> None:
    found = runtimes(total, cells)
    for name, cell in cells.items():
        asked = _CELL.fullmatch(cell)
        shown = int(asked[2]) if asked else int(cell)
        assert found.standing(name).runtime["cpu"] == shown * CORE, f"{title}: {name}"


@pytest.mark.parametrize(("title", "total", "cells"), rows()[:2])
def test_the_bars_are_drawn_as_long_as_they_are(title: str, total: int, cells: dict[str, str]) -> None:
    found = runtimes(total, cells)
    drawn = PAGE[PAGE.index(f"\n{title} ") if f"\n{title} " in PAGE else PAGE.index(f"\n{title}\n") :]
    for name in (name for name, cell in cells.items() if _CELL.fullmatch(cell)):
        standing = found.standing(name)
        runtime, borrowed = standing.runtime["cpu"] // CORE, standing.borrowed.get("cpu", 0) // CORE
        bar = "█" * ((runtime - borrowed) // DRAWN) + "▒" * (borrowed // DRAWN)
        assert re.search(rf"^  {name} +{bar} {runtime}$", drawn, re.MULTILINE), f"{title}: {name} {bar} {runtime}"
