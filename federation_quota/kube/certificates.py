"""Certificates that the system serves: from its own authority, or from given files; and who trusts them."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from cryptography import x509

from federation_quota import hooks, names
from federation_quota.kube.client import Client
from federation_quota.kube.mirrors import ObjectMirror
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.resource import Resource
from federation_quota.pki import publishing, secret
from federation_quota.pki.rotation import Policy
from federation_quota.pki.serving import CertificateKeeper, ReloadableContext, Trusts
from federation_quota.pki.source import CertificateSource, FileSource, InternalSource, SignerView

log = structlog.get_logger()

SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIGURATIONS = [
    Resource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
    for plural, kind in (
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    )
]


class PublishedTrust:
    """What the API server was told to trust: our webhook configurations, mirrored."""

    def __init__(self, client: Client) -> None:
        self._mirrors = {resource.kind: ObjectMirror() for resource in CONFIGURATIONS}
        self.reflectors = [
            Reflector(
                client,
                resource,
                decode=ObjectMirror.decode,
                sink=self._mirrors[resource.kind],
                label_selector=names.selector(names.PARTS),
            )
            for resource in CONFIGURATIONS
        ]

    def trusts(self, chain: Sequence[x509.Certificate]) -> bool:
        """Whether every hook of ours is there and trusts what this chain leads to."""
        trust = publishing.trust_of(self._configurations(), hooks.expected())
        return publishing.is_trusted_everywhere(chain, trust)

    def why_not(self) -> str:
        """Why the API server could not call us yet, whatever certificate is served; empty where it could."""
        if not all(reflector.synced.is_set() for reflector in self.reflectors):
            return "the webhook configurations are still being read"
        trust = publishing.trust_of(self._configurations(), hooks.expected())
        return "" if all(trust.values()) else "no authority is published in every webhook configuration"

    def _configurations(self) -> Iterable[Mapping[str, Any]]:
        for kind, mirror in self._mirrors.items():
            for found in mirror.objects.values():
                yield {**found, "kind": kind}  # items of a list do not say it themselves


class AuthorityView:
    """The authority's Secret, mirrored, for leaves that the replica signs for itself."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._mirror = ObjectMirror()
        self._problem = ""
        self.reflector = Reflector(
            client,
            SECRETS,
            decode=ObjectMirror.decode,
            sink=self._mirror,
            namespace=namespace,
            field_selector=f"metadata.name={names.AUTHORITY_SECRET}",
        )

    def signer(self) -> SignerView | None:
        """Who signs now, if the Secret can be read."""
        stored = self._mirror.objects.get(names.AUTHORITY_SECRET)
        if stored is None:
            return None
        try:
            data = stored.get("data")
            state = secret.decode(data if isinstance(data, dict) else None)
        except secret.SecretError as problem:
            if str(problem) != self._problem:  # it is asked every second
                self._problem = str(problem)
                log.error("certificate.authority_unreadable", problem=self._problem)
            return None
        self._problem = ""
        heard = self.reflector.last_heard
        silence = time.monotonic() - heard if heard is not None else 0.0
        return SignerView(state.signing, datetime.now(UTC) - timedelta(seconds=silence))


def keeper(source: CertificateSource, context: ReloadableContext, trusts: Trusts) -> CertificateKeeper:
    """What keeps a server's certificate good."""
    return CertificateKeeper(source, context, now=lambda: datetime.now(UTC), trusts=trusts, poll_seconds=1.0)


def trusted_anyhow(_chain: Sequence[x509.Certificate]) -> bool:
    """Where it is not ours to see who trusts it: scrapers are told by their own configuration."""
    return True


def internal(view: AuthorityView, server_names: Sequence[str]) -> CertificateSource:
    """Leaves of our own."""
    return InternalSource(server_names, view.signer, Policy())


def provided(chain: Path, key: Path) -> CertificateSource:
    """A pair in files: given by an administrator, or mounted from cert-manager's Secret."""
    return FileSource(chain, key)
