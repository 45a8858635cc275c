"""What a validator is, and what it is given when it starts."""

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from federation_quota.validators.decision import Decision
from federation_quota.validators.request import Request, Tenant


class Context(Protocol):
    """What the host offers a validator, from its start on."""

    @property
    def namespace(self) -> str:
        """The system's namespace on the federation API server."""

    @property
    def settings(self) -> Mapping[str, str]:
        """What the administrator set for this validator (`--validator-settings`)."""

    async def read(self, api_version: str, resource: str, name: str, namespace: str | None = None) -> Any:  # noqa: ANN401
        """One object of the federation API server as it is stored now, None where there is none.

        On whichever event loop: `asyncio.run(context.read(…))` where there is none. `resource` is the plural, as in a
        URL. Read with the rights of the webhook: a role of the administrator's has to allow it.
        """


class Validator(Protocol):
    """A rule of one's own.

    `start` and `validate` may be `async` or not. Each call has a thread of its own, and what is to be awaited an event
    loop of its own there: what belongs to a loop, such as a session, is of use only in the call that made it. Each has
    a time limit: who exceeds it is cut off, and the client told to come again.
    """

    @property
    def name(self) -> str:
        """The same as that of its entry point."""

    @property
    def enabled(self) -> bool:
        """Whether it wants to be asked at the moment. It may change, and must be there at once: it is looked at before
        each request, on the webhook's own event loop."""

    def start(self, context: Context) -> Awaitable[None] | None:
        """Called once, before the replica serves. An exception keeps the replica from starting.

        Its event loop, where it has one, goes on: tasks that are to run as long as the replica does can be begun there.
        """

    def validate(self, request: Request, tenant: Tenant) -> Awaitable[Decision] | Decision:
        """Whether the tenant may have that now. No two requests of a tenant are asked about at the same time.

        An exception is no answer: the client is told to come again.
        """
