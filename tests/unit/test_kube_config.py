"""Configurations as people have them, read through `kubernetes`; plugins that work, fail and hang; renewal."""

import asyncio
import base64
import json
import os
import ssl
import stat
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from federation_quota.kube import config, configuration, execplugin
from federation_quota.kube.config import Identity, Material, RenewedCredentials
from federation_quota.kube.error import CredentialsError
from localfed.authority import Authority

EXEC_VERSION = "client.authentication.k8s.io/v1"


class Clock:
    def __init__(self) -> None:
        self.elapsed = 0.0

    def __call__(self) -> float:
        return self.elapsed

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.elapsed)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def kubeconfig(
    folder: Path,
    user: dict[str, Any] | None,
    name: str = "kubeconfig",
    *,
    current: str = "here",
    **cluster: object,
) -> str:
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": "c", "cluster": {"server": "https://kube.example:6443", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
    }
    path = folder / name
    path.write_text(json.dumps(written))
    return str(path)


def plugin(folder: Path, script: str) -> dict[str, Any]:
    path = folder / "plugin.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": EXEC_VERSION, "command": str(path), "interactiveMode": "Never"}}


def credential(bearer: str = "", **status: str) -> str:
    token = {"token": bearer} if bearer else {}
    return json.dumps({"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": {**token, **status}})


async def headers(connection: config.Connection) -> dict[str, str]:
    return dict((await connection.credentials.identity()).headers)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A CA, and a client's certificate and key."""
    authority = Authority(tmp_path_factory.mktemp("pki"), "ca")
    certificate, key = authority.issue("me", common_name="me")
    return authority.certificate, certificate, key


async def test_a_token_context_namespace_proxy_and_server_name_are_read(tmp_path: Path) -> None:
    path = kubeconfig(
        tmp_path,
        {"token": "t0ken"},
        **{"tls-server-name": "kubernetes", "proxy-url": "http://proxy.example:3128"},
    )
    found = await config.load(kubeconfig=path)
    assert found.server == "https://kube.example:6443"
    assert await headers(found) == {"Authorization": "Bearer t0ken"}
    assert (found.server_name, found.proxy, found.namespace) == ("kubernetes", "http://proxy.example:3128", "team")
    identity = await found.credentials.identity()
    assert "t0ken" not in f"{found!r} {identity!r}"
    assert identity.tls is not None
    assert identity.tls.verify_mode == ssl.CERT_REQUIRED


async def test_where_the_configuration_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CredentialsError, match="no kubeconfig at"):
        await config.load()
    named = kubeconfig(tmp_path, {"token": "named"}, "named")
    first = kubeconfig(tmp_path, {"token": "environment"}, "first")
    home = tmp_path / ".kube"
    home.mkdir()
    kubeconfig(home, {"token": "home"}, "config")
    assert await headers(await config.load()) == {"Authorization": "Bearer home"}
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{first}:{named}")
    assert await headers(await config.load()) == {"Authorization": "Bearer environment"}
    assert await headers(await config.load(kubeconfig=named)) == {"Authorization": "Bearer named"}


async def test_certificates_given_as_data_are_used_and_leave_no_file_behind(
    tmp_path: Path, pair: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    authority, certificate, key = (base64.b64encode(path.read_bytes()).decode() for path in pair)
    user = {"client-certificate-data": certificate, "client-key-data": key}
    path = kubeconfig(tmp_path, user, **{"certificate-authority-data": authority})
    identity = await (await config.load(kubeconfig=path)).credentials.identity()
    assert identity.tls is not None
    assert len(identity.tls.get_ca_certs()) == 1
    assert not list(temporary.iterdir())


async def test_certificates_given_as_files_are_found_next_to_the_kubeconfig_and_followed(
    tmp_path: Path, pair: tuple[Path, Path, Path]
) -> None:
    for name, source in zip(("ca.pem", "me.pem", "me.key"), pair, strict=True):
        (tmp_path / name).write_bytes(source.read_bytes())
    user = {"client-certificate": "me.pem", "client-key": "me.key"}
    path = kubeconfig(tmp_path, user, **{"certificate-authority": "ca.pem"})
    clock = Clock()
    material = await configuration.from_files(path)
    credentials = RenewedCredentials(lambda: configuration.from_files(path), material, clock=clock)
    before = await credentials.identity()
    clock.elapsed += config.CHECK_SECONDS + 1
    assert (await credentials.identity()) is before  # nothing has changed

    renewed = Authority(tmp_path / "other", "ca")
    certificate, key = renewed.issue("me", common_name="me")
    (tmp_path / "me.pem").write_bytes(certificate.read_bytes())
    (tmp_path / "me.key").write_bytes(key.read_bytes())
    assert (await credentials.identity()) is before  # not looked at yet
    clock.elapsed += config.CHECK_SECONDS + 1
    after = await credentials.identity()
    assert after.tls is not before.tls  # new connections use the new certificate; old ones end by themselves


async def test_a_half_written_file_is_survived(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"token": "a"})
    file = tmp_path / "kubeconfig"
    clock = Clock()
    material = await configuration.from_files(path)
    credentials = RenewedCredentials(lambda: configuration.from_files(path), material, clock=clock)
    whole = file.read_text().replace('"a"', '"b"')
    file.write_text(whole[: len(whole) // 2])
    clock.elapsed += config.CHECK_SECONDS + 1
    with capture_logs() as logs:
        assert (await credentials.identity()).headers["Authorization"] == "Bearer a"
    assert [entry["event"] for entry in logs] == ["credentials.renewal_failed"]
    file.write_text(whole)
    clock.elapsed += config.CHECK_SECONDS + 1
    assert (await credentials.identity()).headers["Authorization"] == "Bearer b"


async def test_a_refused_token_is_read_again_once_for_all_who_were_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    path = kubeconfig(tmp_path, {"tokenFile": "token"})
    clock = Clock()
    reads = 0

    async def read() -> Material:
        nonlocal reads
        reads += 1
        return await configuration.from_files(path)

    credentials = RenewedCredentials(read, await configuration.from_files(path), clock=clock)
    refused = await credentials.identity()
    assert refused.headers["Authorization"] == "Bearer old"
    clock.elapsed += 10
    assert not await credentials.renew(refused)  # the file says the same: nothing to try
    (tmp_path / "token").write_text("new")
    clock.elapsed += 10
    refused = await credentials.identity()
    assert all(await asyncio.gather(*(credentials.renew(refused) for _ in range(10))))
    assert reads == 2
    assert (await credentials.identity()).headers["Authorization"] == "Bearer new"
    assert not await credentials.renew(await credentials.identity())  # too soon to read again
    assert reads == 2


async def test_the_service_account_of_a_pod_and_its_rotation(
    tmp_path: Path, pair: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert configuration.reading() is configuration.in_cluster
    with pytest.raises(CredentialsError, match="the pod's service account"):
        await config.load()
    (tmp_path / "ca.crt").write_bytes(pair[0].read_bytes())
    (tmp_path / "namespace").write_text("system\n")
    # As a kubelet does it: files are links into a folder that is swapped whole.
    for number, token in enumerate(("first", "second")):
        (tmp_path / f"data{number}").mkdir()
        (tmp_path / f"data{number}" / "token").write_text(token)
    (tmp_path / "token").symlink_to(tmp_path / "data" / "token")
    (tmp_path / "data").symlink_to(tmp_path / "data0")

    async def read() -> Material:
        return await configuration.in_cluster(str(tmp_path / "token"), str(tmp_path / "ca.crt"))

    clock = Clock()
    material = await read()
    assert (material.server, material.namespace) == ("https://[fd00::1]:443", "system")
    credentials = RenewedCredentials(read, material, clock=clock)
    assert (await credentials.identity()).headers["Authorization"].split() == ["bearer", "first"]
    (tmp_path / "swap").symlink_to(tmp_path / "data1")
    (tmp_path / "swap").rename(tmp_path / "data")
    clock.elapsed += config.CHECK_SECONDS + 1
    assert (await credentials.identity()).headers["Authorization"].split() == ["bearer", "second"]


async def test_a_plugin_gives_a_token_and_is_asked_again_before_it_ends(tmp_path: Path) -> None:
    clock = Clock()
    ends = (clock.now() + timedelta(seconds=600)).isoformat().replace("+00:00", "Z")
    script = f"""n=$(cat {tmp_path}/n 2>/dev/null || echo 0); n=$((n+1)); echo $n > {tmp_path}/n
echo '{credential("TOKEN", expirationTimestamp=ends)}' | sed s/TOKEN/token-$n/"""
    path = kubeconfig(tmp_path, plugin(tmp_path, script))
    material = await configuration.from_files(path)
    assert material.expires == clock.now() + timedelta(seconds=600)
    credentials = RenewedCredentials(lambda: configuration.from_files(path), material, clock=clock, now=clock.now)
    for elapsed, token in ((0, 1), (500, 1), (539, 1), (541, 2)):
        clock.elapsed = elapsed
        assert (await credentials.identity()).headers["Authorization"] == f"Bearer token-{token}"


async def test_a_plugin_gives_a_certificate(tmp_path: Path, pair: tuple[Path, Path, Path]) -> None:
    answer = credential(clientCertificateData=pair[1].read_text(), clientKeyData=pair[2].read_text())
    (tmp_path / "answer.json").write_text(answer)
    path = kubeconfig(tmp_path, plugin(tmp_path, f"cat {tmp_path}/answer.json"))
    found = await config.load(kubeconfig=path)
    assert (await found.credentials.identity()).tls is not None
    assert await headers(found) == {}


async def test_a_plugin_is_told_what_it_asks_for(tmp_path: Path) -> None:
    script = f"""echo "$KUBERNETES_EXEC_INFO $SECRET_OF_PLUGIN $1" > {tmp_path}/told
echo '{credential("t")}'"""
    user = plugin(tmp_path, script)
    user["exec"] |= {
        "provideClusterInfo": True,
        "args": ["first"],
        "env": [{"name": "SECRET_OF_PLUGIN", "value": "x"}],
        "command": "./plugin.sh",  # next to the kubeconfig, wherever we are
    }
    await config.load(kubeconfig=kubeconfig(tmp_path, user))
    info, secret, argument = (tmp_path / "told").read_text().rsplit(maxsplit=2)
    assert (secret, argument) == ("x", "first")
    assert json.loads(info)["spec"] == {"interactive": False, "cluster": {"server": "https://kube.example:6443"}}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no such account >&2; exit 3", "ended with 3: no such account"),
        ("exit 1", "no word why"),
        ("echo not json", "no ExecCredential"),
        ("echo '{}'", "no ExecCredential"),
        (f"echo '{credential()}'", "neither a token nor a certificate"),
        (f"echo '{credential(clientCertificateData='x')}'", "without its key"),
        (f"echo '{credential('t').replace('/v1', '/v1beta1')}'", "answered as"),
    ],
)
async def test_a_plugin_that_fails_is_heard(tmp_path: Path, script: str, said: str) -> None:
    with pytest.raises(CredentialsError, match=said):
        await config.load(kubeconfig=kubeconfig(tmp_path, plugin(tmp_path, script)))


async def test_a_plugin_that_is_missing_says_how_to_get_it(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": EXEC_VERSION, "command": "no-such-plugin-anywhere", "installHint": "brew it"}}
    with pytest.raises(CredentialsError, match=r"does not start.*brew it"):
        await config.load(kubeconfig=kubeconfig(tmp_path, user))


async def test_a_plugin_that_hangs_is_ended(tmp_path: Path) -> None:
    section = plugin(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 600")["exec"]
    with pytest.raises(CredentialsError, match="nothing within"):
        await execplugin.run(section, cluster={}, directory=".", timeout_seconds=0.5)
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_an_ended_token_is_not_used_when_no_other_can_be_had(tmp_path: Path) -> None:
    clock = Clock()

    async def read() -> Material:
        raise CredentialsError("the plugin is gone")

    material = Material("https://x", None, "Bearer t", expires=clock.now() + timedelta(seconds=100))
    credentials = RenewedCredentials(read, material, clock=clock, now=clock.now)
    clock.elapsed = 90
    assert (await credentials.identity()).headers["Authorization"] == "Bearer t"  # still good
    clock.elapsed = 101
    with pytest.raises(CredentialsError, match="the plugin is gone"):
        await credentials.identity()


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"as": "root", "token": "t"}, "impersonation"),
        ({"auth-provider": {"name": "azure"}}, "no credentials"),
        ({"client-certificate-data": "%%%", "client-key-data": "%%%"}, "no base64"),
        ({"client-certificate": "missing.pem", "client-key": "missing.key"}, "missing.pem"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_not_ignored(tmp_path: Path, user: dict[str, Any], said: str) -> None:
    with pytest.raises(CredentialsError, match=said):
        await config.load(kubeconfig=kubeconfig(tmp_path, user))


async def test_a_context_that_is_not_there_and_files_that_are_no_kubeconfig_are_told(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="elsewhere"):
        await config.load(kubeconfig=kubeconfig(tmp_path, {"token": "t"}), context="elsewhere")
    for text in ("{", "", "[]", "a: [b"):
        (tmp_path / "odd").write_text(text)
        with pytest.raises(CredentialsError, match="odd"):
            await config.load(kubeconfig=str(tmp_path / "odd"))


async def test_a_users_section_may_be_empty(tmp_path: Path) -> None:
    assert await headers(await config.load(kubeconfig=kubeconfig(tmp_path, None))) == {}


async def test_the_environments_proxy_is_used_unless_the_host_is_exempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kubeconfig(tmp_path, {"token": "t"})
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert (await config.load(kubeconfig=path)).proxy == "http://proxy.example:3128"
    monkeypatch.setenv("NO_PROXY", "kube.example")
    assert (await config.load(kubeconfig=path)).proxy is None
    socks = kubeconfig(tmp_path, {"token": "t"}, "socks", **{"proxy-url": "socks5://user:pw@proxy.example"})
    with pytest.raises(CredentialsError, match="a socks5 proxy is not supported"):
        await config.load(kubeconfig=socks)


def test_the_same_material_gives_the_same_context_and_so_the_same_connections(pair: tuple[Path, Path, Path]) -> None:
    first = config.static("https://x", authority=pair[0].read_bytes())
    second = config.static("https://x", authority=pair[0].read_bytes(), token="t")  # noqa: S106

    async def contexts() -> tuple[Identity, Identity]:
        return await first.credentials.identity(), await second.credentials.identity()

    one, other = asyncio.run(contexts())
    assert one.tls is other.tls
    unverified = asyncio.run(config.static("https://x", is_verified=False).credentials.identity())
    assert unverified.tls is not None
    assert unverified.tls.verify_mode == ssl.CERT_NONE
    assert asyncio.run(config.static("http://x").credentials.identity()).tls is None
