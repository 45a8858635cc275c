"""The documents as values: their links, what they name in backticks, and the console sessions in them.

A fenced block that is marked `console` is a session that holds: lines that begin with `$` were typed, the lines below
them were printed. `…` stands for anything within a line, and alone on its line for any number of lines.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_AGE = re.compile(r"\s\d+[smhd](\d+[smh])?$")


def pages() -> list[Path]:
    """Everything that is written for people."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "charts").rglob("*.md")])


def links(page: Path) -> list[str]:
    """Where a page points to within the project."""
    found = _LINK.findall(_FENCE.sub("", page.read_text()))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def code(page: Path) -> list[str]:
    """What stands in backticks within sentences."""
    return _CODE.findall(_FENCE.sub("", page.read_text()))


@dataclass(frozen=True)
class Command:
    """One line that was typed, and what was printed."""

    page: str
    text: str
    printed: tuple[str, ...]

    @property
    def looks(self) -> bool:
        """Whether it changes nothing, so that it may be typed again until it shows what was waited for."""
        looks = r"(get|describe|events|explain|wait|fedquota (pending|usage))"
        return bool(re.search(rf"^kubectl( -\S+ \S+| --\S+ \S+)* {looks}\b", self.text))

    def matches(self, printed: str) -> bool:
        """Whether that is what the page shows; spaces and ages apart."""
        if not self.printed:
            return True
        lines = [f"{_plain(line)}\n" for line in printed.strip().splitlines()]
        return re.fullmatch("".join(_pattern(line) for line in self.printed), "".join(lines)) is not None


def sessions(page: Path) -> Iterator[Command]:
    """The commands of all console blocks of a page, in order."""
    for kind, body in _FENCE.findall(page.read_text()):
        if kind != "console":
            continue
        for chunk in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            text, *printed = chunk.strip("\n").split("\n")
            while text.endswith("\\"):
                text = text[:-1] + printed.pop(0).strip()
            yield Command(page.name, text, tuple(printed))


def _plain(line: str) -> str:
    return " ".join(_AGE.sub(" AGE", line.rstrip()).split())


def _pattern(line: str) -> str:
    if line.strip() == "…":
        return r"(?:.*\n)*"
    return ".*".join(re.escape(part) for part in _plain(line).split("…")) + r"\n"
