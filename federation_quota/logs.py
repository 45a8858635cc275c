"""The log of both deployables: one line per event, one stable name per kind of event.

`docs/logs.md` lists the names and what they mean. Off a terminal a line is a JSON object with `timestamp`, `level` and
`event`; libraries' lines come through the same pipe, as `library.said`. Objects, tokens and keys are never logged:
lines hold names, versions, amounts and reasons.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

import structlog

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("auto", "json", "console")

REVIEW: Final = "review"
"""The key under which every line that is written while a review is handled has its uid."""


def configure(level: str, log_format: str, stream: TextIO | None = None) -> None:
    """Set up structlog, and Python's own logging and warnings to go through it."""
    output = stream or sys.stderr
    number = getattr(logging, level.upper())
    is_for_people = log_format == "console" or (log_format == "auto" and output.isatty())
    if is_for_people:
        # The plain traceback: others show the values of variables, whatever they are.
        rendering: list[structlog.typing.Processor] = [
            structlog.dev.ConsoleRenderer(
                colors=output.isatty(), exception_formatter=structlog.dev.plain_traceback, sort_keys=False
            )
        ]
    else:
        rendering = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(output),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[_Pipe()], force=True)
    logging.captureWarnings(True)


@contextmanager
def about_review(uid: str) -> Iterator[None]:
    """Every line that is written inside belongs to that review."""
    with structlog.contextvars.bound_contextvars(**{REVIEW: uid}):
        yield


def causes(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """What went wrong, out of however many groups that tasks have wrapped it in."""
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from causes(one)
        else:
            yield one


class _Pipe(logging.Handler):
    """What libraries say through Python's own logging."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line of a library's."""
        structlog.get_logger().log(
            record.levelno,
            "library.said",
            library=record.name,
            message=record.getMessage().strip(),
            exc_info=record.exc_info,
        )
