"""The system's own certificate authority: minted, published, rotated with overlap. The leader's, and nobody else's.

What to do next is `federation_quota.pki.rotation`'s to say; here it is done, and looked at again.
"""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import msgspec
import structlog

from controllers.trust import Publication
from federation_quota import names
from federation_quota.kube import error
from federation_quota.kube.client import Client
from federation_quota.kube.resource import Resource
from federation_quota.pki import secret
from federation_quota.pki.authority import CertificateError, create_authority, parse_certificates
from federation_quota.pki.following import Following
from federation_quota.pki.rotation import Policy, Publish, RotationState, Store, next_step

log = structlog.get_logger()

SECRETS = Resource("", "v1", "secrets", "Secret")
# However long nothing is due: somebody may have changed a configuration meanwhile.
LOOK_SECONDS = 60.0
# A file that is mounted changes without a word.
FILE_SECONDS = 10.0


class AuthorityController:
    """Keeps the authority's Secret and what hooks trust in step."""

    def __init__(
        self,
        host: Client,
        namespace: str,
        publication: Publication,
        policy: Policy = Policy(),  # noqa: B008 - frozen
    ) -> None:
        self._host = host
        self._namespace = namespace
        self._publication = publication
        self._policy = policy

    async def run(self) -> NoReturn:
        """Go on for as long as this leads."""
        while True:
            try:
                pause = await self._step()
            except error.KubeError as problem:
                log.warning("authority.failed", problem=str(problem))
                pause = 1.0
            except secret.SecretError as problem:
                # Never overwritten: whoever deletes it starts anew, with overlap.
                log.error("authority.unreadable", secret=names.AUTHORITY_SECRET, problem=str(problem))
                pause = LOOK_SECONDS
            await asyncio.sleep(pause)

    async def _step(self) -> float:
        """One step; how long to wait before the next."""
        now = datetime.now(UTC)
        state, version = await self._read()
        trusted = await self._publication.trusted()
        step = next_step(state, trusted, now, create_authority, self._policy)
        if isinstance(step, Store):
            await self._write(step.state, version)
            return 0.0
        if isinstance(step, Publish):
            await self._publication.publish(step.bundle)
            return 0.2
        if not trusted and state is not None and await self._publication.has_webhook():
            await self._publication.publish(state.bundle(now))
            return 0.2
        until = (step.until - now).total_seconds()
        return min(max(until, 0.2), LOOK_SECONDS if trusted else 0.5)

    async def _read(self) -> tuple[RotationState | None, str | None]:
        try:
            body = await self._host.get(SECRETS, names.AUTHORITY_SECRET, self._namespace)
        except error.NotFoundError:
            return None, None
        stored = msgspec.json.decode(body)
        return secret.decode(stored.get("data")), stored["metadata"]["resourceVersion"]

    async def _write(self, state: RotationState, version: str | None) -> None:
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": names.AUTHORITY_SECRET, "namespace": self._namespace, "labels": names.PARTS},
            "data": secret.encode(state),
        }
        if version is None:
            await self._host.create(SECRETS, manifest, self._namespace)
        else:
            manifest["metadata"]["resourceVersion"] = version  # type: ignore[index]
            await self._host.replace(SECRETS, names.AUTHORITY_SECRET, manifest, self._namespace)
        log.info("authority.stored")


class GivenAuthority:
    """Has hooks trust the certificates in a file; what has left it stays trusted for as long as it may be served."""

    def __init__(self, path: Path, publication: Publication) -> None:
        self._path = path
        self._publication = publication
        self._following = Following()

    async def run(self) -> NoReturn:
        """Go on for as long as this leads."""
        while True:
            try:
                pause = await self._step()
            except (error.KubeError, CertificateError, OSError) as problem:
                log.error("authority.not_published", path=str(self._path), problem=str(problem))
                pause = 1.0
            await asyncio.sleep(pause)

    async def _step(self) -> float:
        """One look; how long to wait before the next."""
        given = parse_certificates(await asyncio.to_thread(self._path.read_bytes))
        trusted = await self._publication.trusted()
        self._following = self._following.updated(given, trusted, datetime.now(UTC))
        if not trusted and not await self._publication.has_webhook():
            return 0.5
        if not trusted or any(one != frozenset(self._following.trusted) for one in trusted):
            await self._publication.publish(self._following.bundle)
        return FILE_SECONDS
