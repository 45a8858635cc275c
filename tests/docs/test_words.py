"""What the documents name exists: links, flags, fields, metrics."""

import argparse
import re
from pathlib import Path

import pytest

from controllers.__main__ import flags as controllers_flags
from tests.docs import pages
from tests.docs.pages import ROOT, Command
from webhook.__main__ import flags as webhook_flags

PAGES = [page.relative_to(ROOT) for page in pages.pages()]
REFERENCE = ROOT / "docs" / "reference.md"
# Flags and fields of Kubernetes, Karmada, Helm and our own tools, which the documents speak of too.
FOREIGN_FLAGS = {
    "--feature-gates",
    "--no-hooks",
    "--nodes",
    "--node-capacity",
    "--flag",
    "--skipped-propagating-apis",
    "--dry-run",
    "--as",
}
FOREIGN_FIELDS = {
    "spec.clusters",
    "spec.suspension.scheduling",
    "spec.replicas",
    "spec.resourceSelectors",
    "spec.overall",
}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    for link in pages.links(ROOT / page):
        path, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert target.exists(), f"{page}: {link}"
        assert not anchor or anchor in pages.anchors(target), f"{page}: {link}"


def known_flags() -> set[str]:
    parsers: list[argparse.ArgumentParser] = [webhook_flags(), controllers_flags()]
    return {name for parser in parsers for action in parser._actions for name in action.option_strings}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_flag_in_backticks_is_one_of_ours(page: Path) -> None:
    named = {match for text in pages.code(ROOT / page) for match in re.findall(r"^(--[a-z-]+)", text)}
    assert named <= known_flags() | FOREIGN_FLAGS


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_field_in_backticks_is_one_of_ours(page: Path) -> None:
    fields = set(re.findall(r"^\| `((?:spec|status)[^`]*)`", REFERENCE.read_text(), re.MULTILINE))
    named = {text for text in pages.code(ROOT / page) if re.fullmatch(r"(spec|status)(\.[A-Za-z\[\]]+)+", text)}
    assert named <= fields | FOREIGN_FIELDS


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_metric_in_backticks_is_one_of_ours(page: Path) -> None:
    named = {one for text in pages.code(ROOT / page) for one in re.findall(r"federation_quota_[a-z_]+", text)}
    metrics = ROOT / "docs" / "metrics.md"
    if named and page.name != metrics.name and metrics.exists():
        assert named <= set(re.findall(r"federation_quota_[a-z_]+", metrics.read_text()))


@pytest.mark.parametrize(
    ("shown", "printed", "is_match"),
    [
        (("a   b   5s",), "a b 12m\n", True),
        (("a …",), "a anything at all", True),
        (("a …",), "b anything at all", False),
        (("first", "…", "last"), "first\nx\ny\nlast", True),
        (("first", "…"), "first", True),
        (("first", "…"), "first\nx\ny", True),
        (("first",), "first\nsecond", False),
        (("cpu: 6/10",), "cpu: 60/10", False),
    ],
)
def test_what_is_printed_is_held_against_what_is_shown(shown: tuple[str, ...], printed: str, is_match: bool) -> None:
    assert Command("page", "kubectl get kq", shown).matches(printed) is is_match


def test_what_operators_are_told_to_look_for_is_said_by_the_code() -> None:
    """Reasons of a 429 and names of log events, as `operations.md` quotes them."""
    source = "".join(
        path.read_text()
        for folder in ("federation_quota", "controllers", "webhook")
        for path in (ROOT / folder).rglob("*.py")
    )
    quoted = set(pages.code(ROOT / "docs" / "operations.md"))
    reasons = {text for text in quoted if re.match(r"(it|this replica|only|the API server|has lost) [a-z ]+", text)}
    events = {text for text in quoted if re.fullmatch(r"[a-z]+\.[a-z]+_[a-z_]+|[a-z]+\.(unreachable|unreadable)", text)}
    assert len(reasons) >= 7
    assert len(events) >= 4
    assert [text for text in reasons | events if text not in source] == []
