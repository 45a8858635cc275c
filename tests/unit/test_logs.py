"""The log: stable names, one pipe, and nothing in it that should not be."""

import ast
import functools
import io
import json
import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from federation_quota import logs
from federation_quota.dump import EVENT
from webhook.__main__ import parse

ROOT = Path(__file__).resolve().parents[2]
METHODS = {"debug", "info", "warning", "error", "critical", "exception", "log"}


@functools.cache
def calls() -> list[tuple[str, ast.Call]]:
    """Every call of a logger in the product."""
    found = []
    for package in ("federation_quota", "controllers", "webhook"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
                    receiver = ast.unparse(node.func.value).split(".")[-1]
                    if receiver in ("log", "_log", "review_log", "get_logger()"):
                        found.append((f"{path.relative_to(ROOT)}:{node.lineno}", node))
    return found


def event(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    argument = call.args[1 if call.func.attr == "log" else 0]
    assert isinstance(argument, ast.Constant), f"line {call.lineno}: an event's name is a plain text"
    return str(argument.value)


def test_every_event_has_a_stable_name_of_its_own() -> None:
    found = [(where, event(call)) for where, call in calls()]
    assert len(found) > 40
    for where, name in found:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*", name), where
    twice = [name for name, count in Counter(name for _, name in found).items() if count > 1]
    assert twice == []


def test_every_event_stands_in_the_documentation() -> None:
    page = (ROOT / "docs" / "logs.md").read_text()
    listed = re.findall(r"^\| `([a-z_.]+)` \| .+ \|$", page, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == {event(call) for _, call in calls()} | {EVENT}


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Whatever a test configures, the tests after it find what they would have without it."""
    before = logging.getLogger().handlers[:]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield
    structlog.reset_defaults()
    logging.captureWarnings(False)
    logging.getLogger().handlers[:] = before


@pytest.fixture
def configured() -> io.StringIO:
    """A log at its default, into a text."""
    output = io.StringIO()
    logs.configure("info", "auto", output)
    return output


def lines(output: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_off_a_terminal_a_line_is_json_with_time_level_and_event(configured: io.StringIO) -> None:
    log = structlog.get_logger()
    log.debug("thing.unseen")
    log.info("thing.done", quota="q")
    try:
        raise ValueError("no good")
    except ValueError:
        log.exception("thing.failed")
    done, failed = lines(configured)
    assert (done["event"], done["level"], done["quota"]) == ("thing.done", "info", "q")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", done["timestamp"])
    assert "ValueError: no good" in failed["exception"]


def test_libraries_and_warnings_come_through_the_same_pipe(configured: io.StringIO) -> None:
    logging.getLogger("aiohttp.server").error("Error handling request")
    logging.getLogger("asyncio").info("too quiet to matter")
    warnings.warn("old ways", DeprecationWarning, stacklevel=1)
    first, second = lines(configured)
    assert (first["event"], first["library"], first["message"]) == (
        "library.said",
        "aiohttp.server",
        "Error handling request",
    )
    assert (second["event"], second["library"]) == ("library.said", "py.warnings")
    assert "old ways" in second["message"]


def test_lines_belong_to_the_review_they_are_written_in(configured: io.StringIO) -> None:
    log = structlog.get_logger()
    with logs.about_review("a-uid"):
        log.info("thing.inside")
    log.info("thing.outside")
    inside, outside = lines(configured)
    assert inside["review"] == "a-uid"
    assert "review" not in outside


def test_people_see_no_values_of_variables(configured: io.StringIO) -> None:
    output = io.StringIO()
    logs.configure("info", "console", output)
    password = "hunter2-in-a-variable"  # noqa: S105 - that is the point
    try:
        raise ValueError(str(len(password)))
    except ValueError:
        structlog.get_logger().exception("thing.failed")
    assert "thing.failed" in output.getvalue()
    assert "hunter2" not in output.getvalue()


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["--metrics-listen=8080"], {}, "'8080' is not of the form ADDRESS:PORT"),
        (["--metrics-listen=0.0.0.0:99999"], {}, "is not of the form ADDRESS:PORT"),
        (["--metrics-certificate=a"], {}, "--metrics-certificate and --metrics-key go together"),
        (["--metrics-certificate=a", "--metrics-key=b"], {}, "of no use without --metrics-authorization=token"),
        ([], {"FEDERATION_QUOTA_LOG_LEVEL": "loud"}, "FEDERATION_QUOTA_LOG_LEVEL=loud: it is one of debug, info"),
    ],
)
def test_what_makes_no_sense_is_one_clear_line(
    arguments: list[str],
    environment: dict[str, str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code not in (0, None)
    assert said in f"{capsys.readouterr().err}{ended.value.code}"
