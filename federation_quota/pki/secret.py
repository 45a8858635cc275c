"""The authority's Secret: rotation state to and from the `data` of a Kubernetes Secret.

Keys and certificates stand in entries of their own, as PEM, so that people can look at one with the usual tools; what
else the state knows is one JSON document. An entry that is missing, strange or from a newer version is an error that
names it: the Secret is never guessed at, and never quoted, because what is wrong in it may be a key.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from federation_quota.pki.authority import (
    Authority,
    CertificateError,
    parse_authority,
    parse_certificates,
    to_pem,
)
from federation_quota.pki.rotation import Retired, RotationState

VERSION: Final = 1
DOCUMENT: Final = "rotation.json"
SIGNING: Final = "signing"
NEXT: Final = "next"

_Read = TypeVar("_Read")


class SecretError(Exception):
    """The Secret does not hold a rotation state; the text names the entry and holds nothing of its content."""


def encode(state: RotationState) -> dict[str, str]:
    """The Secret's `data`: base64 by entry name."""
    document = {
        "version": VERSION,
        "nextPublishedAt": state.next_published_at.isoformat() if state.next_published_at else None,
        "retired": [
            {"certificate": to_pem([retired.certificate]).decode(), "until": retired.until.isoformat()}
            for retired in state.retired
        ],
    }
    entries = {DOCUMENT: json.dumps(document, indent=1).encode()}
    for name, authority in ((SIGNING, state.signing), (NEXT, state.next)):
        if authority is not None:
            entries[f"{name}.crt"] = to_pem([authority.certificate])
            entries[f"{name}.key"] = authority.key_pem
    return {name: base64.b64encode(content).decode() for name, content in entries.items()}


def decode(data: Mapping[str, str] | None) -> RotationState:
    """Read a Secret's `data`; SecretError where it is not what `encode` writes. Entries of others are left alone."""
    entries = data or {}
    document = _document(_entry(entries, DOCUMENT))
    published_at = document.get("nextPublishedAt")
    retired = document.get("retired")
    if not isinstance(retired, list):
        raise SecretError(f"the authority's Secret: {DOCUMENT}: `retired` is not a list")
    state = RotationState(
        signing=_authority(entries, SIGNING),
        next=_authority(entries, NEXT),
        next_published_at=None if published_at is None else _time(published_at, "nextPublishedAt"),
        retired=tuple(_retired(item, index) for index, item in enumerate(retired)),
    )
    if state.next is None and state.next_published_at is not None:
        raise SecretError(f"the authority's Secret: {DOCUMENT} has `nextPublishedAt`, but there is no {NEXT}.crt")
    return state


def _entry(entries: Mapping[str, str], name: str) -> bytes:
    if name not in entries:
        raise SecretError(f"the authority's Secret has no {name}")
    try:
        return base64.b64decode(entries[name], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise SecretError(f"the authority's Secret: {name} is not base64") from None


def _document(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:  # its own text and attributes hold the content
        raise SecretError(f"the authority's Secret: {DOCUMENT} is not JSON") from None
    if not isinstance(document, dict):
        raise SecretError(f"the authority's Secret: {DOCUMENT} is not an object")
    version = document.get("version")
    if type(version) is int and version > VERSION:
        raise SecretError(
            f"the authority's Secret has format {version}, this version reads up to {VERSION}: "
            "a newer federation-quota wrote it"
        )
    if version != VERSION or type(version) is not int:
        raise SecretError(f"the authority's Secret: {DOCUMENT} has no known `version`")
    return document


def _authority(entries: Mapping[str, str], name: str) -> Authority | None:
    certificate, key = f"{name}.crt", f"{name}.key"
    if certificate not in entries and key not in entries:
        return None
    pair = _entry(entries, certificate), _entry(entries, key)
    return _named(f"{certificate} and {key}", lambda: parse_authority(*pair))


def _retired(item: object, index: int) -> Retired:
    where = f"retired[{index}]"
    if not isinstance(item, dict) or not isinstance(item.get("certificate"), str):
        raise SecretError(f"the authority's Secret: {DOCUMENT}: {where} has no certificate")
    pem = item["certificate"].encode(errors="replace")
    certificates = _named(f"{DOCUMENT}: {where}", lambda: parse_certificates(pem))
    if len(certificates) != 1:
        raise SecretError(f"the authority's Secret: {DOCUMENT}: {where} holds {len(certificates)} certificates")
    return Retired(certificates[0], _time(item.get("until"), f"{where}.until"))


def _time(value: object, where: str) -> datetime:
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise SecretError(f"the authority's Secret: {DOCUMENT}: {where} is not a time with its zone")
    return time.astimezone(UTC)


def _named(where: str, read: Callable[[], _Read]) -> _Read:
    try:
        return read()
    except CertificateError as error:
        raise SecretError(f"the authority's Secret: {where}: {error}") from None
