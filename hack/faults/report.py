"""One page: the seed, a line per fault, what was found, and whether that is all right."""

from collections import Counter
from dataclasses import dataclass

from faults.checker import Request, Verdict, Window, is_failure

MOST_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Outcome:
    """One fault, as the page shows it."""

    window: Window
    recovery_seconds: float | None
    ended: tuple[str, ...] = ()  # replicas that ended by themselves in it, and were started again


def page(seed: int, outcomes: list[Outcome], skipped: list[str], verdict: Verdict, requests: list[Request]) -> str:
    """The report, in Markdown."""
    lines = [
        f"# Faults, seed {seed}: {'PASS' if passed(verdict, skipped) else 'FAIL'}",
        "",
        f"{verdict.versions} versions stored, {verdict.requests} requests, {verdict.denials} denials, "
        f"{verdict.busy} answered 429.",
        "",
        "| fault | lasted | recovered after | requests | failed in it | ended by themselves |",
        "|---|---:|---:|---:|---|---|",
    ]
    for one in outcomes:
        window = one.window
        touched = [request for request in requests if window.touches(request)]
        recovered = "never" if one.recovery_seconds is None else f"{one.recovery_seconds:.1f} s"
        lasted = f"{window.ended - window.began:.1f} s"
        lines.append(
            f"| {window.name} | {lasted} | {recovered} | {len(touched)} | {_failed(touched)} "
            f"| {', '.join(one.ended) or 'nobody'} |"
        )
    lines += ["", "Recovery is counted from the end of a fault; of a kill from the kill.", ""]
    lines += [
        "| looked for | found |",
        "|---|---:|",
        f"| over-admissions | {len(verdict.over_admissions)} |",
        f"| leaked use | {len(verdict.leaks)} |",
        f"| false denials | {len(verdict.false_denials)} |",
        f"| failed although the federation was healthy | {len(verdict.failures)} |",
        f"| not recovered from | {len(verdict.unrecovered)} |",
        f"| gaps in the history | {len(verdict.gaps)} |",
        "",
    ]
    lines += [f"- not run, for lack of time: {name}" for name in skipped]
    lines += [f"- {problem}" for problem in verdict.problems[:MOST_SHOWN]]
    if len(verdict.problems) > MOST_SHOWN:
        lines.append(f"- and {len(verdict.problems) - MOST_SHOWN} more")
    return "\n".join(lines).rstrip() + "\n"


def passed(verdict: Verdict, skipped: list[str]) -> bool:
    """Whether nothing was found, and nothing left out."""
    return not verdict.problems and not skipped


def _failed(requests: list[Request]) -> str:
    counted = Counter(str(one.code or "no answer") for one in requests if is_failure(one) or one.code == 429)
    return ", ".join(f"{number} x {code}" for code, number in sorted(counted.items())) or "none"
