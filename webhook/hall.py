"""The hall of a tenant: where its requests stand in line at one replica, and what is known there of its title."""

import asyncio
from dataclasses import dataclass, field

from federation_quota.tenants.grants import Grants
from webhook.call import Over


@dataclass(slots=True, eq=False)
class Hall:
    """Where the requests of one tenant stand in line."""

    tenant: str
    gate: asyncio.Lock = field(default_factory=asyncio.Lock)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    visitors: int = 0  # in line, or inside
    left_at: float = 0.0  # when the last one left
    grants: Grants | None = None  # while the title is this replica's
    inherited: int = 0  # the version of the title as of which they are complete
    held_since: float = 0.0
    is_in_doubt: bool = False  # a write of which nothing was heard may have given the title away, or may yet
    is_yielding: bool = False
    hung: Over | None = None  # a call that was cut off and goes on

    @property
    def is_hung(self) -> bool:
        """Whether such a call still goes on."""
        return self.hung is not None and not self.hung.done()
