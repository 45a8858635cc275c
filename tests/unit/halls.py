"""Turns of tenants without a federation: titles in memory, for replicas that are always there."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from federation_quota.accounting.observation import Observation
from federation_quota.ledger.settling import LiveLook
from federation_quota.tenants.store import LostError
from federation_quota.tenants.title import Title
from webhook.tenancy import Tenancy


class Titles:
    """What the API server keeps, and every replica sees at once."""

    def __init__(self) -> None:
        self.stored: dict[str, Title] = {}
        self.watches: list[Callable[[Title], None]] = []

    async def read(self, tenant: str) -> Title | None:
        return self.stored.get(tenant)

    async def write(self, title: Title) -> Title:
        known = self.stored.get(title.tenant)
        if title.version != (known.version if known else 0):
            raise LostError(title.tenant)
        written = self.stored[title.tenant] = replace(title, version=title.version + 1)
        for watch in self.watches:
            asyncio.get_running_loop().call_soon(watch, written)
        return written


def tenancy(titles: Titles, me: str = "me", *others: str) -> Tenancy:
    """The turns of one replica, beside others."""

    async def roll() -> list[str]:
        return [me, *others]

    def look(_namespace: str, _binding: str) -> Awaitable[LiveLook]:
        raise AssertionError("nothing is old enough to be looked at")

    made = Tenancy(
        store=titles, me=lambda: me, is_present=lambda: True, roll=roll, observation=Observation(), look=look
    )
    titles.watches.append(made.stored)
    return made
