"""The keeper: what is served follows what a source gives, carefully, on a clock of the test's own."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from structlog.testing import capture_logs

from federation_quota.pki.authority import (
    Authority,
    CertificateError,
    KeyPair,
    create_authority,
    fingerprint,
    is_anchored,
    sign_leaf,
    to_pem,
)
from federation_quota.pki.rotation import Policy
from federation_quota.pki.serving import SETTLE, CertificateKeeper, CertificateStatus, ReloadableContext
from federation_quota.pki.source import CertificateSource, FileSource, InternalSource, SignerView
from tests.pki.tls import ADDRESS, serving, shown_to

START = datetime.now(UTC).replace(microsecond=0)
OLD, NEW = create_authority(START), create_authority(START)


class Scene:
    """A keeper with everything around it in the test's hand."""

    def __init__(self, source: CertificateSource, read_seconds: float = 5.0) -> None:
        self.now = START
        self.trusted = [OLD.certificate]
        self.context = ReloadableContext()
        self.keeper = CertificateKeeper(
            source, self.context, now=lambda: self.now, trusts=self.trusts, read_seconds=read_seconds, sleep=self.sleep
        )
        self.sleeps: list[float] = []
        self.naps = 3

    def trusts(self, chain: Sequence[x509.Certificate]) -> bool:
        return is_anchored(chain, self.trusted)

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        if len(self.sleeps) == self.naps:
            raise asyncio.CancelledError

    async def refresh(self, later: timedelta = timedelta()) -> CertificateStatus:
        self.now += later
        await self.keeper.refresh()
        return self.keeper.status


class Given:
    """A source that gives what the test says, or fails as it says."""

    def __init__(self, answer: KeyPair | CertificateError) -> None:
        self.answer = answer

    def current(self, now: datetime) -> KeyPair:
        if isinstance(self.answer, CertificateError):
            raise self.answer
        return self.answer


def leaf_of(authority: Authority) -> KeyPair:
    return sign_leaf(authority, [ADDRESS], START)


async def test_the_first_pair_is_served_at_once_and_ready_when_every_hook_trusts_it() -> None:
    scene = Scene(Given(leaf_of(NEW)))
    assert scene.keeper.status == CertificateStatus()
    assert scene.keeper.status.seconds_left(START) == 0
    assert not scene.keeper.is_ready()
    status = await scene.refresh()
    assert status.loads == 1
    assert not scene.keeper.is_ready()
    scene.trusted.append(NEW.certificate)
    assert scene.keeper.is_ready()


async def test_the_status_has_the_expiry_for_a_gauge() -> None:
    pair = leaf_of(OLD)
    scene = Scene(Given(pair))
    status = await scene.refresh()
    assert status == CertificateStatus(pair.leaf.not_valid_after_utc, fingerprint(pair.leaf), loads=1)
    assert status.seconds_left(START) == timedelta(days=7).total_seconds()
    assert status.seconds_left(START + timedelta(days=8)) == -timedelta(days=1).total_seconds()
    assert scene.keeper.is_ready()
    scene.now = START + timedelta(days=7)
    assert not scene.keeper.is_ready()


async def test_of_a_chain_the_first_to_expire_counts() -> None:
    pair, between = leaf_of(OLD), create_authority(START, timedelta(days=1)).certificate
    scene = Scene(Given(KeyPair((pair.leaf, between), pair.key_pem)))
    assert (await scene.refresh()).expires_at == START + timedelta(days=1)


async def test_a_pair_of_an_authority_that_is_not_trusted_yet_is_held_back_until_it_has_settled() -> None:
    source = Given(leaf_of(OLD))
    scene = Scene(source)
    await scene.refresh()
    source.answer = leaf_of(NEW)
    async with serving(scene.context) as server:
        both = [OLD.certificate, NEW.certificate]

        async def served() -> x509.Certificate:
            return await shown_to(server, both)

        assert (await scene.refresh(timedelta(hours=1))).is_held_back
        assert is_anchored([await served()], [OLD.certificate])
        scene.trusted.append(NEW.certificate)
        assert (await scene.refresh()).is_held_back
        assert (await scene.refresh(SETTLE / 2)).is_held_back
        # A hook was reset meanwhile: the waiting starts again.
        scene.trusted.pop()
        await scene.refresh(SETTLE / 2)
        scene.trusted.append(NEW.certificate)
        assert (await scene.refresh()).is_held_back
        assert is_anchored([await served()], [OLD.certificate])
        status = await scene.refresh(SETTLE)
        assert (status.is_held_back, status.loads) == (False, 2)
        assert is_anchored([await served()], [NEW.certificate])
        assert scene.keeper.is_ready()


@pytest.mark.parametrize("is_expired", [True, False])
async def test_nothing_is_held_back_when_what_is_served_helps_nobody(is_expired: bool) -> None:
    source = Given(leaf_of(OLD))
    scene = Scene(source)
    await scene.refresh()
    source.answer = leaf_of(NEW)
    if not is_expired:
        scene.trusted.clear()
    status = await scene.refresh(timedelta(days=8) if is_expired else timedelta())
    assert (status.loads, status.is_held_back) == (2, False)


async def test_files_replaced_by_garbage_are_reported_once_and_the_old_pair_goes_on(tmp_path: Path) -> None:
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    first, second = leaf_of(OLD), leaf_of(OLD)
    chain.write_bytes(to_pem(first.chain))
    key.write_bytes(first.key_pem)
    scene = Scene(FileSource(chain, key))
    with capture_logs() as logs:
        await scene.refresh()
        async with serving(scene.context) as server:
            chain.write_bytes(b"garbage")
            await scene.refresh()
            status = await scene.refresh()
            assert status.failures == 2
            assert status.error is not None
            assert "tls.crt" in status.error
            assert status.expires_at == first.leaf.not_valid_after_utc
            assert await shown_to(server, [OLD.certificate]) == first.leaf
            assert scene.keeper.is_ready()

            # Half of a change: the new certificate with the old key.
            chain.write_bytes(to_pem(second.chain))
            assert "does not belong" in str((await scene.refresh()).error)
            assert await shown_to(server, [OLD.certificate]) == first.leaf

            key.write_bytes(second.key_pem)
            await scene.refresh()
            assert (await scene.refresh(SETTLE)).error is None
            assert await shown_to(server, [OLD.certificate]) == second.leaf
    assert [entry["event"] for entry in logs] == [
        "certificate.loaded",
        "certificate.refused",
        "certificate.refused",
        "certificate.recovered",
        "certificate.loaded",
    ]
    assert "PRIVATE" not in str(logs)
    assert second.key_pem.decode()[60:100] not in str(logs)


async def test_our_own_leaf_follows_its_authority() -> None:
    view = SignerView(OLD, START)
    scene = Scene(InternalSource([ADDRESS], lambda: view, Policy()))
    await scene.refresh()
    async with serving(scene.context) as server:
        view = SignerView(NEW, START)
        assert (await scene.refresh()).is_held_back
        scene.trusted.append(NEW.certificate)
        await scene.refresh()
        await scene.refresh(SETTLE)
        assert is_anchored([await shown_to(server, [NEW.certificate])], [NEW.certificate])


async def test_a_source_that_hangs_is_reported_asked_no_second_time_and_heard_when_it_answers() -> None:
    released = threading.Event()
    asked: list[datetime] = []
    pair = leaf_of(OLD)

    class Hanging:
        def current(self, now: datetime) -> KeyPair:
            asked.append(now)
            released.wait(60)
            return pair

    scene = Scene(Hanging(), read_seconds=0.02)
    for _ in range(3):
        assert "could not be read within" in str((await scene.refresh()).error)
    assert len(asked) == 1
    released.set()
    for _ in range(500):
        if (await scene.refresh()).loads:
            break
    assert scene.keeper.status.loads == 1
    assert scene.keeper.status.error is None


async def test_it_polls_until_it_is_cancelled() -> None:
    scene = Scene(Given(CertificateError("nothing there")))
    with suppress(asyncio.CancelledError):
        await scene.keeper.run()
    assert scene.sleeps == [10.0] * 3
    assert scene.keeper.status.failures == 3
