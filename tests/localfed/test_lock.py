"""One at a time, between processes."""

import shutil
import threading
from pathlib import Path

import pytest

from localfed import lock
from localfed.errors import FederationError


def test_the_second_waits_for_the_first_and_says_for_whom(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = []
    held = threading.Event()

    def first() -> None:
        with lock.hold(tmp_path / "lock", "the thing"):
            held.set()
            threading.Event().wait(0.3)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    held.wait()
    with lock.hold(tmp_path / "lock", "the thing"):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]
    assert "waiting for the thing" in capsys.readouterr().err


def test_waiting_has_an_end(tmp_path: Path) -> None:
    with (
        lock.hold(tmp_path / "lock", "the thing"),
        pytest.raises(FederationError, match="gave up after 0 s waiting for the thing"),
        lock.hold(tmp_path / "lock", "the thing", wait_seconds=0),
    ):
        pass


def test_a_lock_whose_folder_was_removed_meanwhile_is_taken_anew(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    held = threading.Event()

    def remove_while_holding() -> None:
        with lock.hold(path, "the thing"):
            held.set()
            threading.Event().wait(0.3)
            shutil.rmtree(path.parent)

    thread = threading.Thread(target=remove_while_holding)
    thread.start()
    held.wait()
    with lock.hold(path, "the thing"):
        assert path.exists(), "it must hold a lock that the next one will see"
    thread.join()


def test_a_folder_that_is_removed_before_the_lock_is_opened_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "lock"
    make, times = Path.mkdir, iter((True, False, False))

    def make_and_lose(self: Path, *, parents: bool, exist_ok: bool) -> None:
        make(self, parents=parents, exist_ok=exist_ok)
        if next(times):
            shutil.rmtree(self)

    monkeypatch.setattr(Path, "mkdir", make_and_lose)
    with lock.hold(path, "the thing"):
        assert path.exists()
