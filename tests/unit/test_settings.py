"""Settings that both deployables share: a bad value is one clear line before anything starts."""

import pytest

from federation_quota import settings
from federation_quota.ledger.settling import EXPIRY_SECONDS


def parsed(*arguments: str) -> settings.Settings:
    parser = settings.Parser("test")
    parser.common()
    return settings.common(parser.parse_args(arguments))


def test_an_admission_expires_after_a_minute_unless_it_is_set() -> None:
    assert parsed().expiry_seconds == EXPIRY_SECONDS == 60
    assert parsed("--expiry-seconds=15").expiry_seconds == 15


@pytest.mark.parametrize("text", ["", "soon", "-1", "0", "4.9", "601", "nan", "inf"])
def test_an_expiry_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match=r"--expiry-seconds '.*': it is a number from 5 to 600"):
        parsed(f"--expiry-seconds={text}")
