"""Whom API servers trust when they call our webhooks: read from webhook configurations, and changed in them.

Configurations come in as the JSON values that an API server gives (with `kind`, which the items of its lists lack);
changes go out as JSON patches for it. Nothing is sent from here. Which configurations are ours is the caller's to know:
every hook in them is taken to call us.

A patch applies only to the very version of the configuration that it was made from. Any other answers 422 (a `test`
that failed) or 409, which both mean: look again.
"""

import base64
import binascii
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cryptography import x509

from federation_quota.pki.authority import CertificateError, is_anchored, parse_certificates


class Hook(NamedTuple):
    """One webhook of one configuration."""

    kind: str  # ValidatingWebhookConfiguration or MutatingWebhookConfiguration
    configuration: str
    name: str


Trust = Mapping[Hook, frozenset[x509.Certificate]]


@dataclass(frozen=True, slots=True)
class ConfigurationPatch:
    """A JSON patch (`application/json-patch+json`) for one webhook configuration."""

    kind: str
    name: str
    operations: tuple[dict[str, Any], ...]


def trust_of(configurations: Iterable[Mapping[str, Any]], expected: Collection[Hook] = ()) -> Trust:
    """What every hook trusts: nothing where the bundle is missing or unreadable, or an expected hook is not there."""
    found: dict[Hook, frozenset[x509.Certificate]] = dict.fromkeys(expected, frozenset())
    for configuration in configurations:
        for webhook in configuration.get("webhooks") or ():
            hook = Hook(configuration["kind"], configuration["metadata"]["name"], webhook["name"])
            found[hook] = _bundle_of(webhook)
    return found


def is_trusted_everywhere(chain: Sequence[x509.Certificate], trust: Trust) -> bool:
    """Whether every hook trusts what this chain leads to; not so where there is no hook at all."""
    return bool(trust) and all(is_anchored(chain, trusted) for trusted in trust.values())


def patches(configurations: Iterable[Mapping[str, Any]], bundle: bytes) -> list[ConfigurationPatch]:
    """What makes every hook trust exactly this bundle; nothing for those that do, however they spell it."""
    wanted = frozenset(parse_certificates(bundle))
    encoded = base64.b64encode(bundle).decode()
    found: list[ConfigurationPatch] = []
    for configuration in configurations:
        changes = [
            operation
            for index, webhook in enumerate(configuration.get("webhooks") or ())
            if _bundle_of(webhook) != wanted
            for operation in (
                {"op": "test", "path": f"/webhooks/{index}/name", "value": webhook["name"]},
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": encoded},
            )
        ]
        if changes:
            metadata = configuration["metadata"]
            version = {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}
            found.append(ConfigurationPatch(configuration["kind"], metadata["name"], (version, *changes)))
    return found


def _bundle_of(webhook: Mapping[str, Any]) -> frozenset[x509.Certificate]:
    encoded = webhook["clientConfig"].get("caBundle") or ""
    try:
        return frozenset(parse_certificates(base64.b64decode(encoded, validate=True)))
    except (binascii.Error, CertificateError):
        return frozenset()
