"""Ports that nobody else has."""

import socket
from pathlib import Path

import pytest

from localfed import ports
from localfed.errors import FederationError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def owner(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    return folder


def test_two_federations_never_share_a_port(tmp_path: Path) -> None:
    one = ports.take([str(number) for number in range(500)], owner(tmp_path, "one"))
    other = ports.take([str(number) for number in range(500)], owner(tmp_path, "other"))
    assert len({*one.values(), *other.values()}) == 1000


def test_a_port_in_use_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind((ports.LOOPBACK, 0))
        server.listen()
        used = server.getsockname()[1]
        monkeypatch.setattr(ports, "RANGE", range(used, used + 1))
        with pytest.raises(FederationError, match="no 1 free ports"):
            ports.take(["etcd"], owner(tmp_path, "one"))


@pytest.mark.parametrize("gone", [False, True])
def test_what_is_given_back_or_whose_folder_is_gone_can_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    monkeypatch.setattr(ports, "RANGE", range(31990, 32000))
    names = [str(port) for port in ports.RANGE if ports.is_free(port)]
    first, second = owner(tmp_path, "first"), owner(tmp_path, "second")
    ports.take(names, first)
    with pytest.raises(FederationError):
        ports.take(names, second)
    if gone:
        first.rmdir()
    else:
        ports.give_back(first)
    assert len(ports.take(names, second)) == len(names)
