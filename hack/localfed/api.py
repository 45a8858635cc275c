"""The API servers of a federation over HTTP, in this process and over connections that stay open.

For whoever looks often, and for what surrounds a test: a kubectl process for each look costs a hundred times what the
look itself does. What people type is run as they type it, by `kubectl.Kubectl`.
"""

import base64
import json
import ssl
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

from localfed.errors import FederationError

Object = dict[str, Any]
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_JSON = "application/json"
_MERGED = "application/merge-patch+json"
_APPLIED = "application/apply-patch+yaml"
_ANSWER_SECONDS = 60.0
TRIES = 60  # after answers of 429, each with a second's pause


class RefusedError(FederationError):
    """The API server refuses, and says why."""


class LateError(RefusedError):
    """The API server has not done it in the time that it gives itself; some of it may be done."""


class NotThereError(FederationError):
    """The object does not exist."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Where the objects of a kind are found."""

    kind: str
    prefix: str  # /apis/apps/v1
    plural: str
    is_namespaced: bool

    def path(self, namespace: str | None, name: str | None) -> str:
        """The object's path, or the path of all of them."""
        where = f"/namespaces/{namespace}" if namespace and self.is_namespaced else ""
        return f"{self.prefix}{where}/{self.plural}" + (f"/{name}" if name else "")


class Api:
    """Every cluster of a kubeconfig, by its context; the current context where none is named."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._clusters: dict[str | None, _Cluster] = {}
        self._lock = threading.Lock()

    def get(self, kind: str, name: str, namespace: str | None = None, *, context: str | None = None) -> Object:
        """One object. `kind` is any name that kubectl takes; no namespace is `default`, as with kubectl."""
        cluster = self._cluster(context)
        return cluster.ask("GET", cluster.find(kind).path(namespace or "default", name))

    def list(
        self,
        kind: str,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        context: str | None = None,
    ) -> list[Object]:
        """The objects of a kind; no namespace is all namespaces."""
        cluster = self._cluster(context)
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = urlencode({name: text for name, text in selectors.items() if text})
        items: list[Object] = cluster.ask("GET", cluster.find(kind).path(namespace, None), query)["items"]
        return items

    def create(
        self, value: Object, *, namespace: str | None = None, dry_run: bool = False, context: str | None = None
    ) -> Object:
        """Store a new object; unknown fields are refused, as with kubectl."""
        cluster = self._cluster(context)
        path = cluster.find(value["kind"]).path(value["metadata"].get("namespace") or namespace, None)
        return cluster.ask("POST", path, f"fieldValidation=Strict{_dry(dry_run)}", body=value)

    def apply(
        self, *values: Object, namespace: str | None = None, subresource: str = "", context: str | None = None
    ) -> None:
        """Have these objects as they are given, as `kubectl apply --server-side --force-conflicts` does."""
        cluster = self._cluster(context)
        for value in values:
            metadata = value["metadata"]
            group = value["apiVersion"].rpartition("/")[0]
            kind = cluster.find(f"{value['kind']}.{group}")
            path = kind.path(metadata.get("namespace") or namespace or "default", metadata["name"])
            path += f"/{subresource}" if subresource else ""
            cluster.ask("PATCH", path, "fieldManager=kubectl&force=true", body=value, content=_APPLIED)

    def patch(
        self,
        kind: str,
        *names: str,
        change: Object,
        namespace: str | None = None,
        dry_run: bool = False,
        context: str | None = None,
    ) -> None:
        """Change these objects by a JSON merge patch; unknown fields are refused, as with kubectl."""
        cluster = self._cluster(context)
        for name in names:
            path = cluster.find(kind).path(namespace or "default", name)
            cluster.ask("PATCH", path, f"fieldValidation=Strict{_dry(dry_run)}", body=change, content=_MERGED)

    def delete(self, kind: str, name: str, namespace: str | None = None, *, context: str | None = None) -> None:
        """Delete one object; nobody waits until it is gone."""
        cluster = self._cluster(context)
        cluster.ask("DELETE", cluster.find(kind).path(namespace or "default", name), "propagationPolicy=Background")

    def delete_all(self, kind: str, namespace: str, *, context: str | None = None) -> None:
        """Delete the objects of a kind in a namespace; nobody waits until they are gone."""
        cluster = self._cluster(context)
        for left in reversed(range(TRIES)):
            try:
                cluster.ask("DELETE", cluster.find(kind).path(namespace, None))
                return
            except LateError:  # there were many: now there are fewer
                if not left:
                    raise

    def serves(self, kind: str, *, context: str | None = None) -> bool:
        """Whether the API server knew the kind when it was first asked for its kinds."""
        return self._cluster(context).knows(kind)

    def raw(self, path: str, *, context: str | None = None) -> Object:
        """What the API server answers at that path."""
        return self._cluster(context).ask("GET", path)

    def _cluster(self, context: str | None) -> "_Cluster":
        with self._lock:
            if context not in self._clusters:
                self._clusters[context] = _Cluster(self._kubeconfig, context)
            return self._clusters[context]


class _Cluster:
    """One API server: its connections, and the kinds that it serves."""

    def __init__(self, kubeconfig: Path, context: str | None) -> None:
        config = json.loads(kubeconfig.read_text())  # as `localfed.kubeconfig` writes it
        contexts = {one["name"]: one["context"] for one in config["contexts"]}
        chosen = contexts[context or config["current-context"]]
        server = next(one["cluster"] for one in config["clusters"] if one["name"] == chosen["cluster"])
        user = next(one["user"] for one in config["users"] if one["name"] == chosen["user"])
        self._server = server["server"]
        self._pool = urllib3.PoolManager(
            maxsize=4,
            ssl_context=_trust(server, user),
            timeout=_ANSWER_SECONDS,
            # An idle connection may be closed as it is used again; who is asked to come later does, as kubectl does.
            retries=urllib3.Retry(
                connect=0,
                read=1,
                redirect=0,
                status=TRIES,
                status_forcelist=[429],
                allowed_methods=None,
                raise_on_status=False,
            ),
        )
        self._kinds: dict[str, Kind] = {}

    def ask(
        self,
        verb: str,
        path: str,
        query: str = "",
        *,
        body: Object | None = None,
        content: str = _JSON,
        accept: str = _JSON,
    ) -> Object:
        url = f"{self._server}{path}?{query}" if query else f"{self._server}{path}"
        sent = json.dumps(body) if body else None
        headers = {"Accept": accept, "Content-Type": content}
        try:
            answer = self._pool.request(verb, url, body=sent, headers=headers)
        except urllib3.exceptions.HTTPError as problem:
            raise FederationError(f"{verb} {path}: {problem}") from problem
        found: Object = json.loads(answer.data)
        if answer.status == 404:
            raise NotThereError(found["message"])
        if answer.status >= 300:
            kind = LateError if answer.status == 504 else RefusedError
            raise kind(f"{verb} {path}: {answer.status} {found.get('message', found)}")
        return found

    def knows(self, name: str) -> bool:
        if not self._kinds:
            self._discover()
        return name.lower() in self._kinds

    def find(self, name: str) -> Kind:
        """The kind of that name; kinds may have been defined since the last look."""
        if name.lower() not in self._kinds:
            self._discover()
        try:
            return self._kinds[name.lower()]
        except KeyError:
            raise FederationError(f"{self._server} serves no {name!r}") from None

    def _discover(self) -> None:
        for root in ("/api", "/apis"):
            for group in self.ask("GET", root, accept=_AGGREGATED)["items"]:
                self._take(root, group)

    def _take(self, root: str, group: Object) -> None:
        group_name = group.get("metadata", {}).get("name", "")
        for version in group["versions"]:  # the preferred one first
            prefix = "/".join(part for part in (root, group_name, version["version"]) if part)
            for resource in version.get("resources", []):
                plural = resource["resource"]
                kind = Kind(resource["responseKind"]["kind"], prefix, plural, resource["scope"] == "Namespaced")
                names = (plural, resource.get("singularResource"), *resource.get("shortNames", []), kind.kind)
                for name in filter(None, names):
                    # Of two groups with the same word, kubectl takes the one that discovery names first.
                    for word in (name.lower(), f"{name.lower()}.{group_name}"):
                        self._kinds.setdefault(word, kind)


def _dry(is_wanted: bool) -> str:
    return "&dryRun=All" if is_wanted else ""


def _trust(server: Object, user: Object) -> ssl.SSLContext:
    authority = base64.b64decode(server["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.NamedTemporaryFile() as pair:  # the ssl module takes a certificate and its key from files alone
        pair.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        pair.flush()
        context.load_cert_chain(pair.name)
    return context
