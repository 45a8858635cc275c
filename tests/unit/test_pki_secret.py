"""The authority's Secret: what is written is read again, and what cannot be read is named, never quoted."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.pki.authority import Authority, create_authority, to_pem
from federation_quota.pki.rotation import Retired, RotationState
from federation_quota.pki.secret import SecretError, decode, encode

NOW = datetime(2030, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
FIRST, SECOND, THIRD = (create_authority(NOW) for _ in range(3))
RETIRED = Retired(THIRD.certificate, NOW + timedelta(days=8))
FULL = RotationState(FIRST, SECOND, NOW, (RETIRED, Retired(FIRST.certificate, NOW)))

Data = dict[str, str]


@pytest.mark.parametrize("state", [FULL, RotationState(), RotationState(signing=FIRST), RotationState(next=SECOND)])
def test_a_state_survives_the_secret(state: RotationState) -> None:
    again = decode(encode(state))
    assert again == state
    for before, after in ((state.signing, again.signing), (state.next, again.next)):
        assert private_value(before) == private_value(after)


def private_value(authority: Authority | None) -> int:
    return authority.key.private_numbers().private_value if authority else 0


def test_entries_are_what_people_expect_of_a_secret() -> None:
    data = encode(FULL)
    assert sorted(data) == ["next.crt", "next.key", "rotation.json", "signing.crt", "signing.key"]
    assert base64.b64decode(data["signing.crt"]).startswith(b"-----BEGIN CERTIFICATE-----")
    assert base64.b64decode(data["signing.key"]).startswith(b"-----BEGIN PRIVATE KEY-----")
    assert b"PRIVATE" not in base64.b64decode(data["rotation.json"])


def test_entries_of_others_are_left_alone() -> None:
    assert decode({**encode(FULL), "note": "aGVsbG8="}) == FULL


def test_times_come_back_in_universal_time() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=9)))
    state = decode(encode(RotationState(next=SECOND, next_published_at=elsewhere)))
    assert state.next_published_at == NOW
    assert state.next_published_at.tzinfo is UTC


def text(value: bytes | str) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def with_document(**changes: object) -> Callable[[Data], Data]:
    def change(data: Data) -> Data:
        document = {**json.loads(base64.b64decode(data["rotation.json"])), **changes}
        return {**data, "rotation.json": text(json.dumps(document))}

    return change


def with_entry(name: str, value: str) -> Callable[[Data], Data]:
    return lambda data: {**data, name: value}


def without(name: str) -> Callable[[Data], Data]:
    return lambda data: {key: value for key, value in data.items() if key != name}


KEY = FIRST.key_pem


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: {}, "has no rotation.json"),
        (with_entry("rotation.json", "%%%"), "rotation.json is not base64"),
        (with_entry("rotation.json", text(KEY)), "rotation.json is not JSON"),
        (with_entry("rotation.json", text(b"\xff\xfe{")), "rotation.json is not JSON"),
        (with_entry("rotation.json", text("[]")), "rotation.json is not an object"),
        (with_document(version=2), "has format 2, this version reads up to 1: a newer federation-quota wrote it"),
        (with_document(version="1"), "has no known `version`"),
        (with_document(version=True), "has no known `version`"),
        (with_document(version=0), "has no known `version`"),
        (with_document(retired=None), "`retired` is not a list"),
        (with_document(retired=[1]), r"retired\[0\] has no certificate"),
        (with_document(retired=[{"certificate": 5}]), r"retired\[0\] has no certificate"),
        (with_document(retired=[{"certificate": "\ud800"}]), r"retired\[0\]: not PEM certificates"),
        (with_document(retired=[{"certificate": KEY.decode()}]), r"retired\[0\]: not PEM certificates"),
        (
            with_document(retired=[{"certificate": to_pem([FIRST.certificate, SECOND.certificate]).decode()}]),
            r"retired\[0\] holds 2 certificates",
        ),
        (
            with_document(retired=[{"certificate": to_pem([FIRST.certificate]).decode()}]),
            r"retired\[0\].until is not a time with its zone",
        ),
        (with_document(nextPublishedAt="2030-01-01T00:00:00"), "nextPublishedAt is not a time with its zone"),
        (with_document(nextPublishedAt=7), "nextPublishedAt is not a time with its zone"),
        (with_document(nextPublishedAt="soon"), "nextPublishedAt is not a time with its zone"),
        (without("signing.key"), "has no signing.key"),
        (without("next.crt"), "has no next.crt"),
        (lambda data: without("next.crt")(without("next.key")(data)), "has `nextPublishedAt`, but there is no next"),
        (with_entry("signing.key", text(SECOND.key_pem)), "signing.crt and signing.key: the private key does not"),
        (with_entry("signing.key", text(to_pem([FIRST.certificate]))), "signing.key: not a PEM private key"),
        (with_entry("signing.key", text(KEY[:120])), "not a PEM private key"),
        (with_entry("signing.crt", text(KEY)), "signing.crt and signing.key: not PEM certificates"),
    ],
)
def test_what_cannot_be_read_is_named_and_never_quoted(change: Callable[[Data], Data], message: str) -> None:
    with pytest.raises(SecretError, match=message) as caught:
        decode(change(encode(FULL)))
    assert "PRIVATE" not in str(caught.value)
    # Loggers print what an error was raised from, too.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_secret_without_data_is_refused() -> None:
    with pytest.raises(SecretError, match=r"has no rotation\.json"):
        decode(None)


@given(
    st.dictionaries(
        st.sampled_from(["rotation.json", "signing.crt", "signing.key", "next.crt", "next.key"]),
        st.binary(max_size=60).map(text) | st.text(max_size=20),
        min_size=1,
    )
)
def test_noise_is_refused_and_nothing_else_happens(noise: Data) -> None:
    with pytest.raises(SecretError) as caught:
        decode({**encode(FULL), **noise})
    assert "PRIVATE" not in str(caught.value)
