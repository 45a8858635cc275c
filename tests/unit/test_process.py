"""A real process whose API server is not there: alive, not ready, and it says why."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import logged

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def kubeconfig(path: Path) -> Path:
    """Of an API server that is not there."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://{HOST}:{free_port()}"}}],
        "users": [{"name": "u", "user": {"token": "a-token-that-nobody-may-see"}}],
    }
    path.write_text(json.dumps(document))
    return path


def get(port: int, path: str) -> tuple[int, str] | None:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except OSError:
        return None


def states(log: Path) -> list[dict[str, Any]]:
    return [one for one in logged.events(log) if one["event"] == "process.state"]


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("deployable", "flags", "reasons"),
    [
        (
            "webhook",
            [f"--listen={HOST}:0", "--drain-seconds=0"],
            "views: bindings and quotas are still being read\n"
            "certificate: no certificate is served that every hook trusts\n"
            "listening: its port is not open",
        ),
        (
            "controllers",
            [f"--webhook-url=https://{HOST}:1"],
            "views: bindings and quotas are still being read\ntrust: the webhook configurations are still being read",
        ),
    ],
)
def test_before_it_knows_anything_it_is_alive_and_not_ready(
    deployable: str, flags: list[str], reasons: str, tmp_path: Path
) -> None:
    port, log = free_port(), tmp_path / "log"
    command = [
        sys.executable,
        "-m",
        deployable,
        f"--kubeconfig={kubeconfig(tmp_path / 'kubeconfig')}",
        f"--metrics-listen={HOST}:{port}",
        "--log-level=error",
        *flags,
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stderr=output)
    try:
        eventually(lambda: get(port, "/livez") == (200, "ok"))
        assert get(port, "/readyz") == (503, reasons)
        answer = get(port, "/metrics")
        assert answer
        assert answer[0] == 200
        os.kill(process.pid, signal.SIGUSR2)
        eventually(lambda: states(log))
        [state] = states(log)
        assert state["process"] == deployable
        assert state["not_ready"] == dict(line.split(": ") for line in reasons.splitlines())
        assert state["accounts"] == []
        assert {one["synced"] for one in state["reflectors"]} == {False}
        process.terminate()
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
        process.wait()
    assert "a-token-that-nobody-may-see" not in log.read_text()
