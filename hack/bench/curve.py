"""Small pictures of how something grows: panels side by side as one SVG, for light pages and dark ones.

The count goes to the right, on a logarithmic scale; what it costs goes up, from zero or on such a scale too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 300, 190  # of a panel's plot
_LEFT, _TOP, _GAP, _BELOW = 56, 98, 74, 52
_COLOURS = ("one", "two", "three")

_STYLE = """
  svg { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; }
  .page { fill: #ffffff; } .text { fill: #1f2328; } .faint { fill: #59636e; } .grid { stroke: #d1d9e0; }
  .one { stroke: #0969da; fill: #0969da; } .two { stroke: #bc4c00; fill: #bc4c00; }
  .three { stroke: #1a7f37; fill: #1a7f37; }
  path { fill: none !important; stroke-width: 2; } circle { stroke: none; }
  .title { font-size: 14px; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .text { fill: #f0f6fc; } .faint { fill: #9198a1; } .grid { stroke: #3d444d; }
    .one { stroke: #4493f8; fill: #4493f8; } .two { stroke: #f0883e; fill: #f0883e; }
    .three { stroke: #3fb950; fill: #3fb950; }
  }
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that grows."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """Things that are measured alike."""

    title: str
    unit: str
    lines: Sequence[Line]
    is_logarithmic: bool = False


def draw(panels: Sequence[Panel], *, across: str) -> str:
    """The picture; `across` is what is counted to the right."""
    width = _LEFT + len(panels) * _WIDTH + (len(panels) - 1) * _GAP + 24
    height = _TOP + _HEIGHT + _BELOW
    names = "; ".join(panel.title for panel in panels)
    body = "\n".join(_panel(panel, _LEFT + index * (_WIDTH + _GAP), across) for index, panel in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(f"{names}, by {across}")}">\n<style>{_STYLE}</style>\n'
        f'<rect class="page" width="{width}" height="{height}" rx="6"/>\n{body}\n</svg>\n'
    )


def _panel(panel: Panel, left: float, across: str) -> str:
    xs = sorted({x for line in panel.lines for x, _ in line.points})
    ys = [y for line in panel.lines for _, y in line.points]
    ticks = _powers(min(ys), max(ys)) if panel.is_logarithmic else _steps(max(ys))

    def right(x: float) -> float:
        return left + _WIDTH * _share(math.log(x), math.log(xs[0]), math.log(xs[-1]))

    def up(y: float) -> float:
        ends = (math.log(ticks[0]), math.log(ticks[-1])) if panel.is_logarithmic else (0.0, ticks[-1])
        return _TOP + _HEIGHT * (1 - _share(math.log(y) if panel.is_logarithmic else y, *ends))

    parts = [_text(left, 26, panel.title, "text title"), _text(left, _TOP - 12, panel.unit, "faint")]
    for tick in ticks:
        parts.append(f'<line class="grid" x1="{left}" x2="{left + _WIDTH}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>')
        parts.append(_text(left - 8, up(tick) + 4, f"{tick:,g}", "faint", "end"))
    for x in xs:
        parts.append(_text(right(x), _TOP + _HEIGHT + 18, _short(x), "faint", "middle"))
    parts.append(_text(left + _WIDTH / 2, _TOP + _HEIGHT + 38, across, "faint", "middle"))
    for number, (line, colour) in enumerate(zip(panel.lines, _COLOURS, strict=False)):
        where = [(right(x), up(y)) for x, y in line.points]
        parts.append(f'<path class="{colour}" d="M{" L".join(f"{x:.1f},{y:.1f}" for x, y in where)}"/>')
        parts += [f'<circle class="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in where]
        # Names stand above, in the order of the lines: beside the lines they would cross each other.
        column, row = left + number % 2 * 150, 46 + number // 2 * 16
        parts.append(f'<circle class="{colour}" cx="{column + 4}" cy="{row - 4}" r="4"/>')
        parts.append(_text(column + 14, row, line.name, "text"))
    return "\n".join(parts)


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _share(value: float, first: float, last: float) -> float:
    return (value - first) / (last - first) if last > first else 0.5


def _powers(least: float, most: float) -> list[float]:
    """Powers of ten around these."""
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def _steps(most: float) -> list[float]:
    """Four or five round steps from zero to what is at least that."""
    power = 10.0 ** math.floor(math.log10(most))
    step = next(share * power for share in (0.2, 0.25, 0.5, 1.0, 2.0) if most <= 5 * share * power)
    return [step * number for number in range(math.ceil(most / step) + 1)]


def _short(count: float) -> str:
    return f"{count / 1000:g}k" if count >= 1000 else f"{count:g}"
