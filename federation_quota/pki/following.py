"""Trust in certificates that others issue (given files, cert-manager): what to publish while they change.

Their new authority and the new leaf arrive at different processes at different times, and nobody there waits for an
API server to trust the one before showing the other. So a certificate that is no longer given stays published for a
while, and `serving` shows a new leaf only once its authority is.

Pure, and with nothing to store: what is leaving is remembered by the process that publishes; another one that takes
over starts counting anew, so that a certificate may stay longer, never shorter.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509

from federation_quota.pki.authority import to_pem

# Far longer than it takes a mounted Secret to reach every replica.
RETENTION: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Following:
    """What to publish now, and since when each certificate in it has not been given any more."""

    trusted: tuple[x509.Certificate, ...] = ()
    leaving: Mapping[x509.Certificate, datetime] = field(default_factory=dict)

    @property
    def bundle(self) -> bytes:
        """The text of the caBundle."""
        return to_pem(self.trusted)

    def updated(
        self,
        given: Collection[x509.Certificate],
        published: Collection[frozenset[x509.Certificate]],
        now: datetime,
        retention: timedelta = RETENTION,
    ) -> "Following":
        """The same after another look at what is given and at what each hook trusts."""
        former = {certificate for trusted in published for certificate in trusted} - set(given)
        since = {certificate: self.leaving.get(certificate, now) for certificate in former}
        kept = [
            certificate
            for certificate in sorted(former, key=lambda certificate: certificate.serial_number)
            if now < min(since[certificate] + retention, certificate.not_valid_after_utc)
        ]
        return Following((*dict.fromkeys(given), *kept), since)
