"""The drawn example of `limits.md`: its numbers are the engine's, of the very manifests that the page links to."""

import re

import pytest
import yaml

from federation_quota.elastic import quota as quotas
from federation_quota.elastic.forest import Forest, read_root
from federation_quota.ledger.judging import Books
from federation_quota.ledger.view import View
from federation_quota.limits import usage
from federation_quota.limits.headroom import headroom
from federation_quota.limits.scheme import Schemes
from federation_quota.stamp import Owner
from federation_quota.yunikorn import checks, conversion
from tests.conformance.test_limits_config import refusals
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "limits.md").read_text()
EXAMPLE = ROOT / "examples" / "limits"
TREE = "campus"

_ROW = re.compile(r"^\| (\w+), in ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_CELL = re.compile(r"(\d+) cpu, `(.+)`")


def manifests() -> list[dict[str, object]]:
    texts = ((EXAMPLE / name).read_text() for name in ("tree.yaml", "quotas.yaml"))
    return [one for text in texts for one in yaml.safe_load_all(text) if one]


def forest() -> Forest:
    root, *others = manifests()
    return Forest.of(map(quotas.read, others), [read_root(root)])


def leaves() -> list[str]:
    head = next(line for line in PAGE.splitlines() if line.startswith("| who |"))
    return re.findall(r"`([^`]+)`", head)


def test_the_manifests_may_be_stored_and_have_the_leaves_of_the_page() -> None:
    assert refusals(manifests()) == []
    assert set(leaves()) == {one.name for one in forest().quotas.values() if not one.is_parent}
    assert len(_ROW.findall(PAGE)) == 5


@pytest.mark.parametrize(("who", "groups", "first", "second"), _ROW.findall(PAGE))
def test_what_each_may_have_is_what_the_engine_says(who: str, groups: str, first: str, second: str) -> None:
    schemes = Schemes.of({TREE: forest().levels(TREE).values()})
    scheme, owner = schemes.by_tree[TREE], Owner(who, tuple(re.findall(r"`([^`]+)`", groups)))
    for leaf, cell in zip(leaves(), (first, second), strict=True):
        shown = _CELL.fullmatch(cell)
        assert shown, cell
        accounts = []
        for subject in scheme.subjects(owner, leaf):
            stored = usage.manifest(subject)
            stored["metadata"] |= {"uid": subject.account, "resourceVersion": "1"}
            accounts.append(Books(usage.fitted(usage.read(stored), schemes), View()))
        assert str(headroom(accounts, leaf)["cpu"]) == shown[1], f"{who} in {leaf}"
        assert scheme.group_of(owner.groups, leaf) == shown[2], f"{who} in {leaf}"


def test_every_limit_is_drawn_on_its_node() -> None:
    drawn = {
        line.split()[1] if "─" in line else TREE: line for line in PAGE.splitlines() if re.match(r" .*campus", line)
    }
    for name, level in forest().levels(TREE).items():
        amounts = [f"{one.resources['cpu']} cpu" for one in level.limits for _ in (*one.users, *one.groups)]
        said = re.findall(r"\d+ cpu", drawn[name or TREE])
        assert sorted(said) == sorted([*amounts, "16 cpu"] if not name else amounts), name


def test_the_same_configuration_of_yunikorn_gives_the_same_limits() -> None:
    imported = conversion.convert(checks.load((EXAMPLE / "queues.yaml").read_text()))
    root, *others = imported.objects
    ours, theirs = forest(), Forest.of(map(quotas.read, others), [read_root(root)])
    assert {name: one.limits for name, one in theirs.levels(TREE).items()} == {
        name: one.limits for name, one in ours.levels(TREE).items()
    }
    assert {name: one.node.min for name, one in theirs.quotas.items()} == {
        name: one.node.min for name, one in ours.quotas.items()
    }
