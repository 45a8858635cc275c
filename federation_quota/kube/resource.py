"""API resources as data: what a client must know of a kind to speak of its objects, not what is in them."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of an API server."""

    group: str  # "" for the core group
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects carry it: `apps/v1`, `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str | None) -> str:
        """The path of all objects, or of those of one namespace."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace is None:
            return f"{root}/{self.plural}"
        if not self.namespaced:
            raise ValueError(f"{self.plural} are in no namespace, yet {namespace!r} was given")
        return f"{root}/namespaces/{_segment(namespace)}/{self.plural}"

    def item(self, name: str, namespace: str | None, subresource: str | None = None) -> str:
        """The path of one object, or of a subresource of it."""
        if self.namespaced and namespace is None:
            raise ValueError(f"{self.plural} are in namespaces, yet none was given for {name!r}")
        path = f"{self.collection(namespace)}/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path


def _segment(text: str) -> str:
    """One step of a path. An empty one would turn an object into its whole collection."""
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} names no object")
    return quote(text, safe="")
