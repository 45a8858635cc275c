"""A certificate authority for one local cluster: its own key, and what it signs, as files in one folder.

For test federations only: keys lie on disk unencrypted, readable by their owner alone. The product's certificates have
a life cycle of their own and are not made here.
"""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=365)


class Authority:
    """One CA, made on first use; what was issued before is issued no second time."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.certificate = folder / "ca.crt"
        self._key_path = folder / "ca.key"
        if not self.certificate.exists():
            key = _write_key(self._key_path)
            subject = _subject(name)
            builder = (
                _builder(subject, subject, key.public_key())
                .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                .add_extension(_usage(is_authority=True), critical=True)
            )
            _write(self.certificate, builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, common_name: str, organizations: Sequence[str] = ()) -> tuple[Path, Path]:
        """Certificate and key for a server on loopback that is also a client of that name and those groups."""
        certificate, key_path = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        if certificate.exists():
            return certificate, key_path
        authority = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        authority_key = serialization.load_pem_private_key(self._key_path.read_bytes(), password=None)
        assert isinstance(authority_key, ec.EllipticCurvePrivateKey)  # noqa: S101 - written by us, above
        key = _write_key(key_path)
        loopback = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = (
            _builder(_subject(common_name, organizations), authority.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(is_authority=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectAlternativeName(loopback), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
        )
        _write(certificate, builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return certificate, key_path

    def signing_key(self, name: str) -> tuple[Path, Path]:
        """Public and private half of a bare key, for service account tokens."""
        public, private = self._folder / f"{name}.pub", self._folder / f"{name}.key"
        if not public.exists():
            key = _write_key(private)
            _write(
                public,
                key.public_key().public_bytes(
                    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
                ),
            )
        return public, private


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name), *groups])


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    _write(
        path,
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        ),
    )
    return key


def _write(path: Path, content: bytes) -> None:
    """Never readable by others, and never half there: it appears by a rename."""
    part = path.with_suffix(path.suffix + ".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    part.rename(path)
