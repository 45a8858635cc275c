"""TLS that changes its certificate while it serves: real handshakes on loopback."""

import asyncio
import os
import socket
import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from federation_quota.pki.authority import (
    Authority,
    CertificateError,
    KeyPair,
    create_authority,
    parse_key_pair,
    sign_leaf,
    to_pem,
)
from federation_quota.pki.serving import ReloadableContext, _readable
from tests.pki.tls import ADDRESS, client_context, connected, serving, shown_to

NAMES = ["webhook.example", ADDRESS]


def now() -> datetime:
    return datetime.now(UTC)  # the TLS stack on the other side has no other clock


@pytest.fixture(scope="module")
def old() -> Authority:
    return create_authority(now())


@pytest.fixture(scope="module")
def new() -> Authority:
    return create_authority(now())


def leaf_of(authority: Authority) -> KeyPair:
    return sign_leaf(authority, NAMES, now())


def rsa_leaf_of(authority: Authority) -> KeyPair:
    """As a company's own authority might issue it."""
    key = rsa.generate_private_key(65537, 2048)
    template = leaf_of(authority).leaf
    builder = (
        x509.CertificateBuilder()
        .subject_name(template.subject)
        .issuer_name(template.issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(template.not_valid_before_utc)
        .not_valid_after(template.not_valid_after_utc)
    )
    for extension in template.extensions:
        if not isinstance(extension.value, x509.SubjectKeyIdentifier):
            builder = builder.add_extension(extension.value, extension.critical)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return parse_key_pair(to_pem([builder.sign(authority.key, hashes.SHA256())]), pem)


@pytest.mark.parametrize("name", NAMES)
async def test_a_strict_client_accepts_a_leaf_by_dns_name_and_by_address(old: Authority, name: str) -> None:
    context, pair = ReloadableContext(), leaf_of(old)
    context.load(pair)
    async with serving(context) as server:
        assert await shown_to(server, [old.certificate], name) == pair.leaf


async def test_the_wrong_name_and_the_wrong_authority_are_refused(old: Authority, new: Authority) -> None:
    context = ReloadableContext()
    context.load(leaf_of(old))
    async with serving(context) as server:
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            await shown_to(server, [old.certificate], "other.example")
        with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer certificate"):
            await shown_to(server, [new.certificate])
        assert await shown_to(server, [old.certificate])


async def test_new_handshakes_get_the_new_leaf_while_open_connections_go_on(old: Authority, new: Authority) -> None:
    context, first, second = ReloadableContext(), leaf_of(old), leaf_of(new)
    context.load(first)
    both = [old.certificate, new.certificate]
    async with serving(context) as server, connected(server, client_context(both)) as kept:
        assert await kept.ask() == "pong"
        context.load(second)
        assert await shown_to(server, both) == second.leaf
        assert await kept.ask() == "pong"
        assert kept.leaf == first.leaf
        # Each leaf by itself: the old one is nothing to those who trust only the new authority, and the reverse.
        assert await shown_to(server, [new.certificate]) == second.leaf
        with pytest.raises(ssl.SSLCertVerificationError):
            await shown_to(server, [old.certificate])
        context.load(first)
        assert await shown_to(server, both) == first.leaf
        with pytest.raises(ssl.SSLCertVerificationError):
            await shown_to(server, [new.certificate])


async def test_no_request_fails_while_certificates_change_all_the_time(old: Authority, new: Authority) -> None:
    context = ReloadableContext()
    pairs = [leaf_of(old), leaf_of(new), rsa_leaf_of(old)]
    context.load(pairs[0])
    trusted = client_context([old.certificate, new.certificate])
    seen: set[x509.Certificate] = set()

    async with serving(context) as server:

        async def ask_again_and_again() -> None:
            for _ in range(15):
                async with connected(server, trusted) as connection:
                    for _ in range(3):
                        assert await connection.ask() == "pong"
                    seen.add(connection.leaf)

        async def change() -> None:
            for number in range(60):
                context.load(pairs[number % len(pairs)])
                await asyncio.sleep(0.005)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(change())
            for _ in range(4):
                tasks.create_task(ask_again_and_again())
    assert len(seen) >= 2


@pytest.mark.parametrize("is_rsa_first", [True, False])
async def test_a_change_of_the_kind_of_key_is_a_change_like_any_other(old: Authority, is_rsa_first: bool) -> None:
    """OpenSSL keeps a certificate for each kind of key: in one context, the old EC leaf would stay in use."""
    context = ReloadableContext()
    first, second = (rsa_leaf_of(old), leaf_of(old)) if is_rsa_first else (leaf_of(old), rsa_leaf_of(old))
    context.load(first)
    async with serving(context) as server:
        assert await shown_to(server, [old.certificate]) == first.leaf
        context.load(second)
        assert await shown_to(server, [old.certificate]) == second.leaf


async def test_a_pair_that_does_not_fit_together_changes_nothing(old: Authority) -> None:
    context, pair, other = ReloadableContext(), leaf_of(old), leaf_of(old)
    context.load(pair)
    async with serving(context) as server:
        with pytest.raises(CertificateError, match="cannot be served: KEY_VALUES_MISMATCH"):
            context.load(KeyPair(pair.chain, other.key_pem))
        assert await shown_to(server, [old.certificate]) == pair.leaf


async def test_without_a_certificate_handshakes_fail_and_nothing_else_does(old: Authority) -> None:
    context = ReloadableContext()
    async with serving(context) as server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await shown_to(server, [old.certificate])
        context.load(leaf_of(old))
        assert await shown_to(server, [old.certificate])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_sessions_are_resumed_across_a_change(old: Authority, version: ssl.TLSVersion) -> None:
    """On plain sockets: asyncio cannot offer a session. The other side runs in a thread of its own."""
    context = ReloadableContext()
    context.load(leaf_of(old))
    client = client_context([old.certificate])
    client.minimum_version = client.maximum_version = version

    async with serving(context) as server:

        def session(former: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool | None]:
            plain = socket.create_connection((ADDRESS, server.port), timeout=60)
            with client.wrap_socket(plain, server_hostname=ADDRESS, session=former) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: webhook\r\n\r\n")
                assert connection.recv(4096)
                return connection.session, connection.session_reused

        first, was_reused = await asyncio.to_thread(session, None)
        assert first is not None
        assert not was_reused
        context.load(leaf_of(old))
        assert (await asyncio.to_thread(session, first))[1]


def test_versions_of_tls_before_1_2_are_refused() -> None:
    assert ReloadableContext().context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_no_key_is_ever_in_a_folder(old: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a descriptor left open, nor inherited by a program that is started."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "there is no such folder"))
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    ReloadableContext().load(leaf_of(old))
    with pytest.raises(CertificateError):
        ReloadableContext().load(KeyPair(leaf_of(old).chain, b""))
    assert len(list(descriptors.iterdir())) == before


@pytest.mark.parametrize("has_memory_files", [True, False])
def test_what_openssl_reads_a_key_from_is_private_and_gone_afterwards(
    has_memory_files: bool, old: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_memory_files:
        monkeypatch.delattr(os, "memfd_create")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with _readable(b"content") as name:
        path = Path(name)
        assert path.read_bytes() == b"content"
        assert has_memory_files or path.stat().st_mode & 0o777 == 0o600
        assert has_memory_files == (list(tmp_path.iterdir()) == [])
    assert not path.exists()
    assert list(tmp_path.iterdir()) == []
    ReloadableContext().load(leaf_of(old))
