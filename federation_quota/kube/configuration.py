"""Reading `kubernetes`' configuration: kubeconfig files and the service account of a pod.

The one module that imports `kubernetes`. It asks that package for everything it does well (merging files, contexts,
token files, OIDC, in-cluster files) and keeps from it what it does badly: exec plugins, whose failure it swallows, and
keys given as data, which it would leave in the temporary folder. A reading that yields no credentials although some
were configured is an error.
"""

# mypy: disallow-untyped-calls=False
# `kubernetes` has no annotations here.

import asyncio
import base64
import binascii
import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from kubernetes.client import Configuration
from kubernetes.config import ConfigException
from kubernetes.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger
from yaml import YAMLError  # with which `kubernetes` reads kubeconfigs

from federation_quota.kube import execplugin
from federation_quota.kube.config import Material, Read, Tls
from federation_quota.kube.error import CredentialsError

_HOME = "~/.kube/config"
_TOKEN = "BearerToken"  # noqa: S105 - the name under which `kubernetes` keeps the header
_DATA = frozenset({"certificate-authority-data", "client-certificate-data", "client-key-data"})


def reading(kubeconfig: str | None = None, context: str | None = None) -> Read:
    """The way to read the configuration that kubectl would use; decided now, so that it does not change later."""
    paths = kubeconfig or os.environ.get("KUBECONFIG")
    if not paths and not context and os.environ.get(SERVICE_HOST_ENV_NAME):
        return in_cluster
    return lambda: from_files(paths or _HOME, context)


async def in_cluster(token: str = SERVICE_TOKEN_FILENAME, authority: str = SERVICE_CERT_FILENAME) -> Material:
    """The service account that the kubelet gave this pod. Its token is rotated: the file is watched."""
    configuration = Configuration()
    token_file, authority_file = Path(token), Path(authority)
    try:
        InClusterConfigLoader(token_filename=token, cert_filename=authority).load_and_set(configuration)
        return Material(
            server=configuration.host,
            tls=Tls(authority=_content(authority)),
            authorization=configuration.api_key[_TOKEN].strip(),
            namespace=_text(token_file.with_name("namespace")),
            files=(token_file, authority_file),
        )
    except (ConfigException, OSError) as error:
        raise CredentialsError(f"the pod's service account cannot be used: {error}") from error


async def from_files(paths: str, context: str | None = None) -> Material:
    """One context of kubeconfig files, merged as kubectl merges them."""
    try:
        merger = await asyncio.to_thread(KubeConfigMerger, paths)
        if merger.config is None:
            raise CredentialsError(f"there is no kubeconfig at {paths}")
        chosen = _Chosen(merger.config, context)
    except YAMLError:
        # Without its text: that would quote the file.
        raise CredentialsError(f"the kubeconfig {paths} is no YAML") from None
    except (ConfigException, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise CredentialsError(f"the kubeconfig {paths} cannot be used: {error}") from error
    issued = execplugin.Issued()
    if chosen.plugin:
        directory = str(Path(chosen.user_file).parent)
        issued = await execplugin.run(chosen.plugin, cluster=chosen.cluster, directory=directory)
    try:
        # In a thread: an OIDC provider may be asked over the network.
        configuration = await asyncio.to_thread(chosen.configuration, merger)
        return _material(chosen, configuration, issued, tuple(map(Path, merger.paths)))
    except (ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        raise CredentialsError(f"the context {chosen.name} of {paths} cannot be used: {error}") from error


class _Chosen:
    """The sections of one context."""

    def __init__(self, config: ConfigNode, context: str | None) -> None:
        self.name: str = context or config["current-context"]
        self._context = config["contexts"].get_with_name(self.name).value["context"]
        cluster = config["clusters"].get_with_name(self._context["cluster"])
        self.cluster: Mapping[str, Any] = cluster.value["cluster"]
        self._cluster_file = cluster.path
        user = config["users"].get_with_name(self._context["user"], safe=True) if self._context.get("user") else None
        self.user: Mapping[str, Any] = (user.value["user"] or {}) if user else {}
        self.user_file: str = (user.path if user else None) or "."
        self.namespace: str | None = self._context.get("namespace")
        # `kubernetes` takes a token before a plugin, and so does this.
        has_token = self.user.get("token") or self.user.get("tokenFile")
        self.plugin: Mapping[str, Any] | None = None if has_token else self.user.get("exec")
        for key in self.user:
            if key.startswith("as"):
                raise ValueError(f"user.{key}: impersonation is not supported, and is not ignored either")

    def configuration(self, merger: KubeConfigMerger) -> Configuration:
        """What `kubernetes` makes of it, without plugin and without keys given as data."""
        configuration = Configuration()
        if "auth-provider" in self.user:
            # These renew their tokens and must write them back, so they get the files as they are.
            loader = KubeConfigLoader(
                merger.config,
                active_context=self.name,
                config_base_path=None,
                config_persister=merger.save_changes,
            )
        else:
            cluster, user = _without_data(self.cluster), _without_data(self.user)
            user.pop("exec", None)
            reduced: dict[str, Any] = {
                "contexts": [{"name": self.name, "context": {"cluster": "it", "user": "it"}}],
                "clusters": [ConfigNode("cluster", {"name": "it", "cluster": cluster}, self._cluster_file)],
                "users": [ConfigNode("user", {"name": "it", "user": user}, self.user_file)],
            }
            loader = KubeConfigLoader(
                ConfigNode("kubeconfig", reduced), active_context=self.name, config_base_path=None
            )
        loader.load_and_set(configuration)
        return configuration


def _material(
    chosen: _Chosen, configuration: Configuration, issued: execplugin.Issued, files: tuple[Path, ...]
) -> Material:
    authorization = configuration.api_key.get(_TOKEN)
    if issued.token:
        authorization = f"Bearer {issued.token}"
    tls = None
    if configuration.host.startswith("https:"):
        tls = Tls(
            authority=_data(chosen.cluster, "certificate-authority") or _content(configuration.ssl_ca_cert),
            certificate=_pem(issued.certificate)
            or _data(chosen.user, "client-certificate")
            or _content(configuration.cert_file),
            key=_pem(issued.key) or _data(chosen.user, "client-key") or _content(configuration.key_file),
            is_verified=configuration.verify_ssl,
        )
    if chosen.user and not authorization and not (tls and tls.certificate and tls.key):
        raise CredentialsError(f"the user of the context {chosen.name} has no credentials that could be used")
    token_file = chosen.user.get("tokenFile")
    named = [configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file]
    if token_file:
        named.append(str(Path(chosen.user_file).parent / token_file))
    return Material(
        server=configuration.host,
        tls=tls,
        authorization=authorization.strip() if authorization else None,
        expires=issued.expires,
        proxy=_proxy(chosen, configuration),
        server_name=configuration.tls_server_name,
        namespace=chosen.namespace,
        files=(*files, *(Path(name) for name in named if name)),
    )


def _proxy(chosen: _Chosen, configuration: Configuration) -> str | None:
    """The cluster's own, or the environment's, which `kubernetes` takes without regard to NO_PROXY."""
    found: str | None = chosen.cluster.get("proxy-url")
    if not found and not proxy_bypass(urlsplit(configuration.host).hostname or ""):
        found = configuration.proxy
    if found and urlsplit(found).scheme not in ("http", "https"):
        raise CredentialsError(f"a {urlsplit(found).scheme or 'nameless'} proxy is not supported, only HTTP ones are")
    return found or None


def _without_data(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: copy.deepcopy(value) for key, value in section.items() if key not in _DATA}


def _data(section: Mapping[str, Any], key: str) -> bytes | None:
    encoded = section.get(f"{key}-data")
    if not encoded:
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise CredentialsError(f"{key}-data is no base64") from None


def _content(path: str | None) -> bytes | None:
    return Path(path).read_bytes() if path else None


def _text(path: Path) -> str | None:
    return path.read_text().strip() if path.exists() else None


def _pem(text: str | None) -> bytes | None:
    return text.encode() if text else None
