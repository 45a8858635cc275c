"""Where a process gets the certificate it serves: signed by itself, or read from files.

A source is asked again and again (`serving.CertificateKeeper` does), and answers with the pair to serve now, the same
value for as long as nothing has changed. It decides neither when a pair is shown nor what happens when it has none.
"""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from federation_quota.pki.authority import (
    Authority,
    CertificateError,
    KeyPair,
    describe,
    is_valid,
    leaf_renewal_time,
    parse_key_pair,
    sign_leaf,
)
from federation_quota.pki.rotation import Policy

MAX_FILE_BYTES: Final = 1 << 20
_ATTEMPTS: Final = 5


class CertificateSource(Protocol):
    """Gives the pair that should be served."""

    def current(self, now: datetime) -> KeyPair:
        """The pair to serve now; CertificateError, with the reason, where there is no good one. May block briefly."""
        ...


@dataclass(frozen=True, slots=True)
class SignerView:
    """What a process knows of the authority that signs: from the Secret, and how fresh that is."""

    signing: Authority | None
    observed_at: datetime  # when the Secret was last known to be so


class InternalSource:
    """Leaves that the process signs for itself, with our own authority. They never leave its memory."""

    def __init__(self, names: Sequence[str], view: Callable[[], SignerView | None], policy: Policy) -> None:
        self._names = tuple(names)
        self._view = view
        self._policy = policy
        self._pair: KeyPair | None = None
        self._issuer: Authority | None = None

    def current(self, now: datetime) -> KeyPair:
        """The leaf in memory, or a new one where another authority signs now or two thirds of its life are over.

        Or where it has yet to begin: it was signed by a clock that was ahead, and has been put right.
        """
        authority = self._authority(now)
        if authority is not None and self._needs_leaf(authority, now):
            self._pair = sign_leaf(authority, self._names, now, self._policy.leaf_lifetime)
            self._issuer = authority
        if self._pair is None:
            raise CertificateError("there is no authority to sign with yet: the leading controller has to publish one")
        if not is_valid(self._pair.leaf, now):
            raise CertificateError(f"{describe(self._pair.leaf)} has expired, and there is no authority to sign anew")
        return self._pair

    def _authority(self, now: datetime) -> Authority | None:
        """Who signs, as far as is surely known: another may have taken over since a Secret was seen long ago."""
        view = self._view()
        if view is None or view.signing is None or now - view.observed_at > self._policy.view_limit:
            return None
        return view.signing if is_valid(view.signing.certificate, now) else None

    def _needs_leaf(self, authority: Authority, now: datetime) -> bool:
        if self._pair is None or self._issuer != authority or now < self._pair.leaf.not_valid_before_utc:
            return True
        lifetime = self._policy.leaf_lifetime
        if now < leaf_renewal_time(self._pair.leaf, lifetime):
            return False
        # Near its authority's own end a new leaf would live no longer than the one there is.
        end = min(now + lifetime, authority.certificate.not_valid_after_utc)
        return end.replace(microsecond=0) > self._pair.leaf.not_valid_after_utc


class FileSource:
    """A pair in two PEM files: given by an administrator, or a Secret of cert-manager's that is mounted.

    They are read whole each time: no timestamp says reliably that a mounted Secret has changed.
    """

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain_path = chain
        self._key_path = key
        self._content: tuple[bytes, bytes] | None = None
        self._pair: KeyPair | None = None

    def current(self, now: datetime) -> KeyPair:
        """The pair in the files."""
        content = self._read()
        if self._pair is None or content != self._content:
            try:
                self._pair = parse_key_pair(*content)
            except CertificateError as error:
                raise CertificateError(f"{self._chain_path} and {self._key_path}: {error}") from None
            self._content = content
        leaf = self._pair.leaf
        if not is_valid(leaf, now):
            dates = f"{leaf.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ} to {leaf.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
            raise CertificateError(f"{self._chain_path}: {describe(leaf)} is valid only from {dates}")
        return self._pair

    def _read(self) -> tuple[bytes, bytes]:
        """Both files of one moment: a mounted Secret may be swapped between one and the other."""
        chain = _content(self._chain_path)
        for _ in range(_ATTEMPTS):
            key, again = _content(self._key_path), _content(self._chain_path)
            if again == chain:
                return chain, key
            chain = again
        raise CertificateError(f"{self._chain_path} changes faster than it can be read")


def _content(path: Path) -> bytes:
    try:
        # Non-blocking, so that a FIFO is an error and not a wait without end.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise CertificateError(f"{path} is not a file")
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise CertificateError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    return content
