"""Who asks, and may they? Bearer tokens of callers, checked by an API server: TokenReview, then SubjectAccessReview.

For whatever this system serves to others than API servers. The API server's answers are kept for a few seconds, tokens
as hashes only; what it cannot be asked about is refused, as unavailable. Tokens are neither logged nor kept.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from federation_quota.kube import error
from federation_quota.kube.client import Client
from federation_quota.kube.resource import Resource

TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
# How long an answer holds: a right that is taken away is gone that much later.
KEPT_SECONDS: Final = 10.0
MOST_KEPT: Final = 1024
# A flood of made-up tokens must not become one on the API server.
MOST_AT_ONCE: Final = 8
# No API server issues longer ones.
LONGEST_TOKEN: Final = 16 * 1024

T = TypeVar("T")


class AccessError(Exception):
    """No access, and why; `status` is HTTP's word for it."""

    status: int
    result: str  # as it is counted


class UnauthenticatedError(AccessError):
    """Nobody knows who asks."""

    status = 401
    result = "unauthenticated"


class ForbiddenError(AccessError):
    """It is known who asks, and they may not."""

    status = 403
    result = "forbidden"


class UnavailableError(AccessError):
    """It could not be found out."""

    status = 503
    result = "unavailable"


@dataclass(frozen=True, slots=True)
class User:
    """Who asks, as the API server knows them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class PathAccess:
    """Something to be done with a path that is no resource of the API server's."""

    verb: str
    path: str

    def attributes(self) -> dict[str, Any]:
        """As a SubjectAccessReview has it."""
        return {"nonResourceAttributes": {"verb": self.verb, "path": self.path}}

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class Authorizer:
    """Asks one API server."""

    def __init__(
        self,
        client: Client,
        *,
        kept_seconds: float = KEPT_SECONDS,
        timeout_seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._timeout_seconds = timeout_seconds
        self._users: _Kept[User | None] = _Kept(kept_seconds, clock)
        self._access: _Kept[bool] = _Kept(kept_seconds, clock)
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def require(self, authorization: str | None, access: PathAccess) -> User:
        """The user of an Authorization header who may do that; AccessError otherwise."""
        user = await self.authenticate(_token(authorization))
        await self.authorize(user, access)
        return user

    async def authenticate(self, token: str) -> User:
        """Whose token it is."""
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        known = self._users.get(key)
        if known is not None:
            user = known[0]
        else:
            user = _user(await self._review(TOKEN_REVIEWS, {"token": token}))
            self._users.put(key, user)
        if user is None:
            raise UnauthenticatedError("the token is not one that the API server knows, or has expired")
        return user

    async def authorize(self, user: User, access: PathAccess) -> None:
        """Nothing where the user may do that."""
        known = self._access.get((user, access))
        if known is not None:
            is_allowed = known[0]
        else:
            spec = {
                "user": user.name,
                "uid": user.uid,
                "groups": user.groups,
                "extra": dict(user.extra),
                **access.attributes(),
            }
            is_allowed = _ACCESS_REVIEW.decode(await self._review(ACCESS_REVIEWS, spec)).status.allowed
            self._access.put((user, access), is_allowed)
        if not is_allowed:
            raise ForbiddenError(f"{user.name} may not {access}: no role on the host cluster grants it")

    async def _review(self, resource: Resource, spec: dict[str, Any]) -> bytes:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        try:
            async with self._turns:
                return await self._client.create(resource, body, timeout_seconds=self._timeout_seconds)
        except error.KubeError as problem:
            raise UnavailableError(f"the API server could not be asked: {problem}") from problem


_TOKEN_REVIEW = msgspec.json.Decoder(_TokenReview)
_ACCESS_REVIEW = msgspec.json.Decoder(_AccessReview)


def _token(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise UnauthenticatedError("send a token of the host cluster: `Authorization: Bearer …`")
    if len(token) > LONGEST_TOKEN:
        raise UnauthenticatedError(f"a token of more than {LONGEST_TOKEN} characters")
    return token


def _user(body: bytes) -> User | None:
    status = _TOKEN_REVIEW.decode(body).status
    if not status.authenticated:
        return None
    found = status.user
    extra = tuple((name, tuple(values)) for name, values in sorted(found.extra.items()))
    return User(found.username, found.uid, tuple(found.groups), extra)


class _Kept(Generic[T]):
    """Answers that hold for a while; no more than so many, the oldest going first."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._answers: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, key: Hashable) -> tuple[T] | None:
        """The answer, if it still holds."""
        found = self._answers.get(key)
        return (found[1],) if found and self._clock() < found[0] else None

    def put(self, key: Hashable, answer: T) -> None:
        """Keep it from now on."""
        self._answers[key] = (self._clock() + self._seconds, answer)
        self._answers.move_to_end(key)
        while len(self._answers) > MOST_KEPT:
            self._answers.popitem(last=False)
