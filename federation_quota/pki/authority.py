"""An authority's certificates and leaves as values: made, signed, read and dated.

Pure but for the randomness of keys: no clock (`now` is given), no files, no knowledge of who serves or trusts what.
Every certificate carries the extensions that strict verifiers ask for (Python 3.13 does by default): basic constraints,
key usage, subject and authority key identifiers.
"""

import hashlib
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME: Final = timedelta(days=365)
LEAF_LIFETIME: Final = timedelta(days=7)

# Certificates start this much before they are made: the clocks of API servers may be behind ours.
BACKDATE: Final = timedelta(hours=1)

# Leaves of replicas that started together are renewed up to this share of their life apart.
JITTER: Final = 0.1


class CertificateError(Exception):
    """A certificate or key that cannot be used; the text says why, and never holds key material."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that signs others, with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False, compare=False)

    @property
    def key_pem(self) -> bytes:
        """The key as text: for the Secret alone."""
        return _key_pem(self.key)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """What a server shows and proves: its certificate, those between it and the authority, and its key."""

    chain: tuple[x509.Certificate, ...]
    key_pem: bytes = field(repr=False)

    @property
    def leaf(self) -> x509.Certificate:
        """The server's own certificate."""
        return self.chain[0]


def create_authority(now: datetime, lifetime: timedelta = AUTHORITY_LIFETIME) -> Authority:
    """Make an authority. Its subject is unlike any other's, so that chains can be built in one way only."""
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    subject = _name(f"federation-quota CA {now:%Y-%m-%d} {identifier.digest.hex()[:12]}")
    builder = (
        _builder(subject, subject, key.public_key(), now - BACKDATE, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    return Authority(builder.sign(key, hashes.SHA256()), key)


def sign_leaf(
    authority: Authority, names: Sequence[str], now: datetime, lifetime: timedelta = LEAF_LIFETIME
) -> KeyPair:
    """Make a server's pair for DNS names and IP addresses. It never outlives its authority."""
    if not names:
        raise CertificateError("a server's certificate needs a name")
    issuer = authority.certificate
    if not is_valid(issuer, now):
        raise CertificateError(f"{describe(issuer)} cannot sign at {now:%Y-%m-%dT%H:%M:%SZ}")
    key = ec.generate_private_key(ec.SECP256R1())
    not_before = max(now - BACKDATE, issuer.not_valid_before_utc)
    not_after = min(now + lifetime, issuer.not_valid_after_utc)
    builder = (
        _builder(_name("federation-quota webhook"), issuer.subject, key.public_key(), not_before, not_after)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative_name(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    return KeyPair((builder.sign(authority.key, hashes.SHA256()),), _key_pem(key))


def parse_certificates(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Read one or more certificates."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError as error:
        raise CertificateError(f"not PEM certificates: {error}") from None


def parse_authority(certificate_pem: bytes, key_pem: bytes) -> Authority:
    """Read an authority that we made."""
    certificates = parse_certificates(certificate_pem)
    if len(certificates) != 1:
        raise CertificateError(f"expected one certificate, found {len(certificates)}")
    certificate = certificates[0]
    if not _is_authority(certificate):
        raise CertificateError(f"{describe(certificate)} is not a certificate authority")
    key = _parse_key(key_pem)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the authority's key is not an elliptic curve key")
    _require_match(certificate, key)
    return Authority(certificate, key)


def parse_key_pair(chain_pem: bytes, key_pem: bytes) -> KeyPair:
    """Read a server's pair that somebody made; any kind of key, but not an encrypted one."""
    chain = parse_certificates(chain_pem)
    key = _parse_key(key_pem)
    _require_match(chain[0], key)
    return KeyPair(chain, _key_pem(key))


def to_pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Certificates as one text."""
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """The certificate's SHA-256, to name it by."""
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def describe(certificate: x509.Certificate) -> str:
    """The certificate in the words of messages and logs."""
    return f"certificate {certificate.subject.rfc4514_string() or '(no subject)'} {fingerprint(certificate)[:12]}"


def is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether the certificate has begun and not ended."""
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def is_anchored(chain: Sequence[x509.Certificate], trusted: Iterable[x509.Certificate]) -> bool:
    """Whether one of the trusted certificates is in the chain, or has signed a certificate of it."""
    return any(anchor in chain or any(_has_signed(anchor, link) for link in chain) for anchor in trusted)


def renewal_time(certificate: x509.Certificate, lifetime: timedelta) -> datetime:
    """When two thirds of its life are over."""
    return certificate.not_valid_after_utc - lifetime / 3


def leaf_renewal_time(leaf: x509.Certificate, lifetime: timedelta) -> datetime:
    """The same for a leaf, and up to a tenth of its life earlier; its serial number is the chance in it."""
    return renewal_time(leaf, lifetime) - lifetime * JITTER * (leaf.serial_number % 1000 / 1000)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    not_before: datetime,
    not_after: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    if not name.isascii() or not name or any(not sign.isalnum() and sign not in "-.*_" for sign in name):
        raise CertificateError(f"{name!r} is neither an IP address nor a DNS name")
    return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _has_signed(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _parse_key(pem: bytes) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise CertificateError("the private key is encrypted: give it unencrypted") from None
    except (ValueError, UnsupportedAlgorithm):
        # Their texts are left out: no parser's message about a key belongs in a log.
        raise CertificateError("not a PEM private key") from None


def _require_match(certificate: x509.Certificate, key: PrivateKeyTypes) -> None:
    if _public_bytes(certificate.public_key()) != _public_bytes(key.public_key()):
        raise CertificateError(f"the private key does not belong to {describe(certificate)}")


def _public_bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _key_pem(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
