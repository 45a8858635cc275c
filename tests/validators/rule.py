"""A validator that does what files tell it, and writes down when it was asked.

In the folder that its setting `folder` names: `limit` is how many cores a tenant may use; `seconds` how long an answer
takes; `hang-TENANT` keeps it from answering about that tenant for as long as the file is there. Every call is a line in
`calls`, with the machine's monotonic clock.
"""

import json
import os
import time
from pathlib import Path

from federation_quota.validators import Context, Decision, Request, Tenant, allow, refuse


class Rule:
    """Synchronous: each call has a thread of its own."""

    name = "rule"
    enabled = True

    def start(self, context: Context) -> None:
        """Where the files are."""
        self._folder = Path(context.settings["folder"])

    def validate(self, request: Request, tenant: Tenant) -> Decision:
        """As the files say."""
        entered = time.monotonic()
        time.sleep(float(self._read("seconds", "0")))
        while (self._folder / f"hang-{tenant.name}").exists():
            time.sleep(0.05)
        decision = self._decide(request, tenant)
        line = {
            "tenant": tenant.name,
            "binding": request.name,
            "entered": entered,
            "left": time.monotonic(),
            "pid": os.getpid(),
            "used": tenant.used["cpu"].to_json(),
            "is_dry_run": request.is_dry_run,
            "allowed": decision.allowed,
        }
        with (self._folder / "calls").open("a") as calls:
            calls.write(json.dumps(line) + "\n")
        return decision

    def _decide(self, request: Request, tenant: Tenant) -> Decision:
        limit = float(self._read("limit", "inf"))
        after = (tenant.used + request.increase)["cpu"].nano / 10**9
        if after <= limit:
            return allow()
        retry = float(self._read("retry", "3600"))
        return refuse("the tenant has no more", {"cores": f"{after - limit:g}"}, retry_after_seconds=retry)

    def _read(self, name: str, default: str) -> str:
        path = self._folder / name
        return path.read_text().strip() or default if path.exists() else default


class Broken:
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("no database")


class Unfit:
    """Takes too few arguments."""

    name = "unfit"
    enabled = True

    def start(self, context: Context) -> None:
        """Nothing."""

    def validate(self, request: Request) -> Decision:
        """Never called."""
        return allow()


class Unstarted:
    """Does not start."""

    name = "unstarted"
    enabled = True

    async def start(self, context: Context) -> None:
        """It cannot."""
        raise ValueError("no budget is set")

    async def validate(self, request: Request, tenant: Tenant) -> Decision:
        """Never called."""
        return allow()
