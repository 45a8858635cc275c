"""The state of a process, on SIGUSR2: one JSON document, on one line of its standard error.

For people who look into a process that behaves strangely. It holds names, versions, ages and amounts; never a key, a
token or an object.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.view import View

log = structlog.get_logger()

EVENT: Final = "process.state"

Part = Callable[[], object]


def on_signal(process: str, parts: Mapping[str, Part]) -> None:
    """Write the parts whenever the process gets SIGUSR2; on the event loop, so that they are of one moment."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, lambda: write(process, parts))


def write(process: str, parts: Mapping[str, Part]) -> None:
    """Write them now, whatever the log's level and format are."""
    document: dict[str, object] = {
        "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        "event": EVENT,
        "process": process,
        "pid": os.getpid(),
    }
    for name, part in {**parts, "tasks": _tasks}.items():
        try:
            document[name] = part()
        except Exception as problem:  # the rest is worth having all the same
            log.exception("process.part_not_dumped", part=name, kind=type(problem).__name__)
    sys.stderr.write(json.dumps(document, default=str) + "\n")
    sys.stderr.flush()


def describe_view(view: View) -> dict[str, object]:
    """How far a view has come, and how much there is in it."""
    namespaces = [one for one in view.namespaces() if not domain.is_leaf(one)]  # under leaves are the same ones
    return {
        "version": view.version,
        "namespaces": len(namespaces),
        "bindings": sum(len(view.entries(one)) for one in namespaces),
        "faults": {one: dict(view.faults(one)) for one in namespaces if view.faults(one)},
    }


def describe_account(
    account: Account, view: View, age_seconds: Callable[[Account, str], float | None]
) -> dict[str, Any]:
    """One account as this process knows it."""
    return {
        "namespace": account.namespace,
        "name": account.name,
        "uid": account.uid,
        "version": account.version,
        "observed": account.observed,
        "active": account.is_active,
        "why_not": _why_not(account, view),
        "joined": sorted(replica for replica, shape in account.joined if shape == account.shape),
        "reservations": [
            {
                "id": one.id,
                "binding": one.binding,
                "uid": one.uid,
                "base": one.base,
                "charge": one.claim.charge.to_json(),
                "seconds": _rounded(age_seconds(account, one.id)),
            }
            for one in account.reservations
        ],
    }


def _why_not(account: Account, view: View) -> str:
    if not account.is_active:
        return "not every replica has joined it"
    if view.version < account.observed:
        return f"the view, at {view.version}, has yet to see what others have seen"
    return ""


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _tasks() -> list[dict[str, str]]:
    """What the event loop is doing, and where each task stands."""
    found = []
    for task in asyncio.all_tasks():
        frames = task.get_stack(limit=1)
        where = f"{frames[0].f_code.co_qualname}:{frames[0].f_lineno}" if frames else ""
        found.append({"name": task.get_name(), "runs": getattr(task.get_coro(), "__qualname__", ""), "at": where})
    return sorted(found, key=lambda one: (one["name"], one["runs"]))
