"""What keeping titles needs of the world: a store that can be read past all caches, and written under a version."""

from typing import Protocol

from federation_quota.tenants.title import Title


class LostError(Exception):
    """A title is not what it was when it was looked at: somebody else was faster."""


class UnknownError(Exception):
    """A title could not be read, or whether it was written is not known."""


class TitleStore(Protocol):
    """Titles, as the API server has them now."""

    async def read(self, tenant: str) -> Title | None:
        """A title as it is stored now, or None where there is none."""

    async def write(self, title: Title) -> Title:
        """Store it if it still has that version, and what it is then; LostError if not."""
