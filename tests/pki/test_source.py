"""Where a served certificate comes from: signed in memory, or read from files that others change."""

import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from federation_quota.pki.authority import (
    Authority,
    CertificateError,
    KeyPair,
    create_authority,
    is_anchored,
    is_valid,
    leaf_renewal_time,
    sign_leaf,
    to_pem,
)
from federation_quota.pki.rotation import Policy
from federation_quota.pki.source import MAX_FILE_BYTES, FileSource, InternalSource, SignerView

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
POLICY = Policy()
NAMES = ["webhook.example"]
FIRST, SECOND = create_authority(NOW), create_authority(NOW)


class View:
    """What the process last saw of the Secret."""

    def __init__(self, signing: Authority | None = FIRST, observed_at: datetime = NOW) -> None:
        self.value: SignerView | None = SignerView(signing, observed_at)

    def __call__(self) -> SignerView | None:
        return self.value


def internal(view: View) -> InternalSource:
    return InternalSource(NAMES, view, POLICY)


def test_a_leaf_is_signed_once_and_kept() -> None:
    source = internal(View())
    pair = source.current(NOW)
    assert is_anchored(pair.chain, [FIRST.certificate])
    assert source.current(NOW + timedelta(hours=1)) is pair


def test_a_leaf_is_renewed_when_two_thirds_of_its_life_are_over() -> None:
    view = View()
    source = internal(view)
    pair = source.current(NOW)
    due = leaf_renewal_time(pair.leaf, POLICY.leaf_lifetime)
    view.value = SignerView(FIRST, due)
    assert source.current(due - timedelta(seconds=1)) is pair
    renewed = source.current(due)
    assert renewed is not pair
    assert renewed.leaf.not_valid_after_utc > pair.leaf.not_valid_after_utc


def test_a_leaf_is_renewed_when_another_authority_signs() -> None:
    view = View()
    source = internal(view)
    pair = source.current(NOW)
    view.value = SignerView(SECOND, NOW)
    assert is_anchored(source.current(NOW).chain, [SECOND.certificate])
    assert source.current(NOW) is not pair


@pytest.mark.parametrize("view", [View(None), View(observed_at=NOW - POLICY.view_limit - timedelta(seconds=1))])
def test_nothing_is_signed_without_an_authority_that_is_surely_the_one(view: View) -> None:
    with pytest.raises(CertificateError, match="there is no authority to sign with yet"):
        internal(view).current(NOW)


def test_a_process_that_has_not_seen_the_secret_has_no_leaf() -> None:
    view = View()
    view.value = None
    with pytest.raises(CertificateError, match="there is no authority to sign with yet"):
        internal(view).current(NOW)


def test_who_lost_sight_of_the_secret_serves_the_leaf_to_its_end_and_says_so_then() -> None:
    source = internal(View())
    pair = source.current(NOW)
    assert source.current(pair.leaf.not_valid_after_utc - timedelta(seconds=1)) is pair
    with pytest.raises(CertificateError, match="has expired, and there is no authority to sign anew"):
        source.current(pair.leaf.not_valid_after_utc)


def test_near_its_authoritys_end_a_leaf_is_not_signed_again_and_again() -> None:
    end = FIRST.certificate.not_valid_after_utc
    view = View(observed_at=end - DAY)
    source = internal(view)
    pair = source.current(end - DAY)
    assert pair.leaf.not_valid_after_utc == end
    assert source.current(end - DAY / 2) is pair


def test_a_leaf_of_a_clock_that_was_ahead_is_signed_anew_when_the_clock_is_put_right() -> None:
    view = View()
    source = internal(view)
    source.current(NOW)
    view.value = SignerView(FIRST, NOW + 10 * DAY)
    ahead = source.current(NOW + 10 * DAY)
    assert ahead.leaf.not_valid_before_utc > NOW
    view.value = SignerView(FIRST, NOW)
    assert is_valid(source.current(NOW).leaf, NOW)


def write(folder: Path, pair: KeyPair) -> None:
    (folder / "tls.crt").write_bytes(to_pem(pair.chain))
    (folder / "tls.key").write_bytes(pair.key_pem)


def files(folder: Path) -> FileSource:
    return FileSource(folder / "tls.crt", folder / "tls.key")


def leaf() -> KeyPair:
    return sign_leaf(FIRST, NAMES, NOW)


def test_files_are_read_and_read_again_when_their_content_changes(tmp_path: Path) -> None:
    first, second = leaf(), leaf()
    write(tmp_path, first)
    source = files(tmp_path)
    pair = source.current(NOW)
    assert pair == first
    write(tmp_path, first)
    assert source.current(NOW) is pair
    write(tmp_path, second)
    assert source.current(NOW) == second


def test_a_mounted_secret_is_followed_through_the_swap_of_its_links(tmp_path: Path) -> None:
    """As kubelet does it: the files are links through `..data`, which is replaced by a rename."""
    first, second = leaf(), leaf()
    for number, pair in enumerate((first, second)):
        (tmp_path / f"..{number}").mkdir()
        write(tmp_path / f"..{number}", pair)
    (tmp_path / "..data").symlink_to("..0")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    source = files(tmp_path)
    assert source.current(NOW) == first
    (tmp_path / "..data_tmp").symlink_to("..1")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert source.current(NOW) == second


def test_a_swap_between_one_file_and_the_other_is_noticed(tmp_path: Path) -> None:
    pairs = [leaf() for _ in range(60)]
    for number, pair in enumerate(pairs):
        (tmp_path / f"..{number}").mkdir()
        write(tmp_path / f"..{number}", pair)
    (tmp_path / "..data").symlink_to("..0")

    def swap_again_and_again() -> None:
        for number in range(1, len(pairs)):
            time.sleep(0.001)
            (tmp_path / "..data_tmp").symlink_to(f"..{number}")
            (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    swapper = threading.Thread(target=swap_again_and_again)
    swapper.start()
    source = files(tmp_path / "..data")
    found = set()
    while swapper.is_alive():
        try:
            found.add(source.current(NOW).leaf)
        except CertificateError as error:  # on a busy machine each attempt may meet a swap; never a pair of two halves
            if "changes faster" not in str(error):
                raise
    swapper.join()
    assert len(found) > 2
    assert source.current(NOW) == pairs[-1]


def spoil(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def make_fifo(folder: Path) -> None:
    (folder / "tls.key").unlink()
    os.mkfifo(folder / "tls.key")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "tls.crt").unlink(), "tls.crt cannot be read: No such file or directory"),
        (lambda folder: (folder / "tls.key").unlink(), "tls.key cannot be read: No such file or directory"),
        (make_fifo, "tls.key is not a file"),
        (spoil("tls.crt", b""), "not PEM certificates"),
        (spoil("tls.crt", b"\x00garbage\xff"), "not PEM certificates"),
        (spoil("tls.key", b"garbage"), "not a PEM private key"),
        (spoil("tls.key", leaf().key_pem), "the private key does not belong to"),
        (spoil("tls.crt", b"-" * (MAX_FILE_BYTES + 1)), "tls.crt is larger than"),
        (lambda folder: write(folder, sign_leaf(FIRST, NAMES, NOW - DAY / 48, DAY / 96)), "is valid only from"),
    ],
)
def test_bad_files_are_refused_with_the_reason_and_good_ones_taken_again(
    tmp_path: Path, change: Callable[[Path], object], message: str
) -> None:
    write(tmp_path, leaf())
    source = files(tmp_path)
    source.current(NOW)
    change(tmp_path)
    with pytest.raises(CertificateError, match=message) as caught:
        source.current(NOW)
    assert "PRIVATE" not in str(caught.value)
    (tmp_path / "tls.key").unlink(missing_ok=True)
    again = leaf()
    write(tmp_path, again)
    assert source.current(NOW) == again
