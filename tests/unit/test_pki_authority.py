"""An authority and its leaves: what they carry, how long they last, what is refused."""

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.pki.authority import (
    AUTHORITY_LIFETIME,
    BACKDATE,
    JITTER,
    LEAF_LIFETIME,
    Authority,
    CertificateError,
    KeyPair,
    create_authority,
    describe,
    fingerprint,
    is_anchored,
    is_valid,
    leaf_renewal_time,
    parse_authority,
    parse_certificates,
    parse_key_pair,
    renewal_time,
    sign_leaf,
    to_pem,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = ["webhook.federation-quota.svc", "127.0.0.1", "::1"]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return create_authority(NOW)


@pytest.fixture(scope="module")
def pair(authority: Authority) -> KeyPair:
    return sign_leaf(authority, NAMES, NOW)


def verify(leaf: x509.Certificate, trusted: list[x509.Certificate], now: datetime, name: x509.GeneralName) -> None:
    assert isinstance(name, x509.DNSName | x509.IPAddress)
    builder = verification.PolicyBuilder().store(verification.Store(trusted)).time(now)
    builder.build_server_verifier(name).verify(leaf, [])


@pytest.mark.parametrize(
    "name", [x509.DNSName(NAMES[0]), *(x509.IPAddress(ipaddress.ip_address(name)) for name in NAMES[1:])]
)
def test_a_strict_verifier_accepts_a_leaf_for_each_of_its_names(
    authority: Authority, pair: KeyPair, name: x509.GeneralName
) -> None:
    verify(pair.leaf, [authority.certificate], NOW, name)


def test_an_authority_does_not_vouch_for_anothers_leaf(pair: KeyPair) -> None:
    with pytest.raises(verification.VerificationError):
        verify(pair.leaf, [create_authority(NOW).certificate], NOW, x509.DNSName(NAMES[0]))


@pytest.mark.parametrize("is_authority", [True, False])
def test_every_certificate_has_what_strict_verifiers_ask_for(
    authority: Authority, pair: KeyPair, is_authority: bool
) -> None:
    extensions = (authority.certificate if is_authority else pair.leaf).extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert constraints.critical
    assert usage.critical
    assert (constraints.value.ca, usage.value.key_cert_sign) == (is_authority, is_authority)
    assert usage.value.digital_signature is not is_authority
    own = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier == own.digest
    assert extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    if not is_authority:
        purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_keys_are_p256(authority: Authority, pair: KeyPair) -> None:
    for certificate in (authority.certificate, pair.leaf):
        key = certificate.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert key.curve.name == "secp256r1"


def test_no_two_authorities_have_one_subject() -> None:
    assert len({create_authority(NOW).certificate.subject for _ in range(5)}) == 5


def test_lifetimes(authority: Authority, pair: KeyPair) -> None:
    assert authority.certificate.not_valid_before_utc == NOW - BACKDATE
    assert authority.certificate.not_valid_after_utc == NOW + AUTHORITY_LIFETIME
    assert pair.leaf.not_valid_after_utc == NOW + LEAF_LIFETIME
    assert not is_valid(pair.leaf, NOW - BACKDATE - timedelta(seconds=1))
    assert is_valid(pair.leaf, NOW)
    assert not is_valid(pair.leaf, NOW + LEAF_LIFETIME)


def test_a_leaf_never_outlives_its_authority(authority: Authority) -> None:
    late = NOW + AUTHORITY_LIFETIME - timedelta(days=1)
    assert sign_leaf(authority, NAMES, late).leaf.not_valid_after_utc == NOW + AUTHORITY_LIFETIME


@pytest.mark.parametrize("when", [NOW + AUTHORITY_LIFETIME, NOW - BACKDATE - timedelta(minutes=1)])
def test_an_authority_signs_only_while_it_is_valid(authority: Authority, when: datetime) -> None:
    with pytest.raises(CertificateError, match=r"federation-quota CA 2030-01-01 .* cannot sign at"):
        sign_leaf(authority, NAMES, when)


def test_an_authority_is_renewed_after_two_thirds_of_its_life(authority: Authority) -> None:
    assert renewal_time(authority.certificate, AUTHORITY_LIFETIME) == NOW + AUTHORITY_LIFETIME * 2 / 3


def test_leaves_are_renewed_at_different_times_up_to_a_tenth_of_their_life_early(authority: Authority) -> None:
    latest = NOW + LEAF_LIFETIME * 2 / 3
    times = {leaf_renewal_time(sign_leaf(authority, NAMES, NOW).leaf, LEAF_LIFETIME) for _ in range(20)}
    assert len(times) > 10
    assert all(latest - LEAF_LIFETIME * JITTER < time <= latest for time in times)


def test_what_is_written_is_read_again(authority: Authority, pair: KeyPair) -> None:
    again = parse_authority(to_pem([authority.certificate]), authority.key_pem)
    assert again == authority
    verify(sign_leaf(again, NAMES, NOW).leaf, [authority.certificate], NOW, x509.DNSName(NAMES[0]))
    assert parse_key_pair(to_pem(pair.chain), pair.key_pem) == pair
    assert parse_certificates(to_pem([authority.certificate, pair.leaf])) == (authority.certificate, pair.leaf)


def test_a_pair_may_have_any_kind_of_key(authority: Authority) -> None:
    key = rsa.generate_private_key(65537, 2048)
    leaf = sign_leaf(authority, NAMES, NOW).leaf
    signed = (
        x509.CertificateBuilder()
        .subject_name(leaf.subject)
        .issuer_name(leaf.issuer)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + LEAF_LIFETIME)
        .sign(authority.key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    assert parse_key_pair(to_pem([signed, authority.certificate]), pem).leaf == signed


def encrypted(authority: Authority) -> bytes:
    return authority.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"word")
    )


def test_bad_pairs_are_refused_with_the_reason(authority: Authority, pair: KeyPair) -> None:
    own, chain = to_pem([authority.certificate]), to_pem(pair.chain)
    with pytest.raises(CertificateError, match="the private key does not belong to certificate CN="):
        parse_authority(own, pair.key_pem)
    with pytest.raises(CertificateError, match="the private key does not belong to"):
        parse_key_pair(chain, authority.key_pem)
    with pytest.raises(CertificateError, match="is not a certificate authority"):
        parse_authority(chain, pair.key_pem)
    with pytest.raises(CertificateError, match="expected one certificate, found 2"):
        parse_authority(own + chain, authority.key_pem)
    with pytest.raises(CertificateError, match="encrypted"):
        parse_authority(own, encrypted(authority))
    with pytest.raises(CertificateError, match="not a PEM private key"):
        parse_key_pair(chain, chain)
    with pytest.raises(CertificateError, match="not PEM certificates"):
        parse_key_pair(pair.key_pem, pair.key_pem)


@given(st.binary(max_size=200))
def test_noise_is_refused_and_nothing_else_happens(noise: bytes) -> None:
    with pytest.raises(CertificateError):
        parse_certificates(noise)
    with pytest.raises(CertificateError):
        parse_authority(noise, noise)


@pytest.mark.parametrize("name", ["wébhook.example", "", "https://webhook", "127.0.0.1:443", "a b"])
def test_a_name_that_cannot_stand_in_a_certificate_is_refused(authority: Authority, name: str) -> None:
    with pytest.raises(CertificateError, match="neither an IP address nor a DNS name"):
        sign_leaf(authority, [name], NOW)


def test_a_leaf_needs_a_name(authority: Authority) -> None:
    with pytest.raises(CertificateError, match="needs a name"):
        sign_leaf(authority, [], NOW)


def test_a_chain_is_anchored_by_its_issuer_or_by_a_part_of_itself(authority: Authority, pair: KeyPair) -> None:
    other = create_authority(NOW).certificate
    assert is_anchored(pair.chain, [other, authority.certificate])
    assert is_anchored(pair.chain, [pair.leaf])
    assert not is_anchored(pair.chain, [other])
    assert not is_anchored(pair.chain, [])


def test_nothing_that_is_printed_holds_a_key(authority: Authority, pair: KeyPair) -> None:
    number = f"{authority.key.private_numbers().private_value}"
    for text in (repr(authority), repr(pair), str(pair), describe(pair.leaf), fingerprint(pair.leaf)):
        assert "PRIVATE" not in text
        assert number not in text
        assert pair.key_pem.decode()[60:100] not in text
