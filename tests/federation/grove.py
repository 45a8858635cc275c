"""A tree of a test's own, and the verbs of that test in it."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from localfed.api import NotThereError, RefusedError
from localfed.federation import Federation
from localfed.kubectl import KubectlError, documents
from tests.federation.stage import eventually

Object = dict[str, Any]


@dataclass(frozen=True)
class Grove:
    """A tree, and the verbs of a test in it. Names are the test's own."""

    federation: Federation
    name: str

    def tree(self, **spec: object) -> Object:
        return self._object("QuotaTree", self.name, {"total": {"cpu": 100}, **spec})

    def composite(self, name: str, **spec: object) -> Object:
        return self._object("CompositeElasticQuota", self.called(name), {"tree": self.name, **spec})

    def elastic(self, namespace: str, **spec: object) -> Object:
        found = self._object("ElasticQuota", "quota", {"tree": self.name, **spec})
        return {**found, "metadata": {**found["metadata"], "namespace": namespace}}

    def called(self, name: str) -> str:
        return f"{self.name}-{name}"

    def apply(self, *objects: Object, user: str = "") -> str:
        return self.kubectl("apply", "-f", "-", *as_user(user), manifest=documents(*objects))

    def refusal(self, *objects: Object, user: str = "") -> str:
        """Why these are not stored."""
        with pytest.raises(KubectlError) as refused:
            self.apply(*objects, user=user)
        return refused.value.stderr

    def delete(self, kind: str, name: str, *more: str, user: str = "") -> str:
        return self.kubectl("delete", kind, name, *more, *as_user(user))

    def kubectl(self, *arguments: str, manifest: str | None = None) -> str:
        return self.federation.kubectl(*arguments, manifest=manifest)

    def _object(self, kind: str, name: str, spec: Object) -> Object:
        metadata = {"name": name, "labels": {"test": self.name}}
        return {"apiVersion": "quota.karmada.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def as_user(user: str) -> list[str]:
    """What makes kubectl ask in somebody's name."""
    return [f"--as={user}"] if user else []


@contextlib.contextmanager
def growing(federation: Federation, name: str) -> Iterator[Grove]:
    """A tree of that name, and at the end no more of it."""
    found = Grove(federation, name)
    federation.api.apply(found.tree())
    yield found
    for kind in ("elasticquotas", "compositeelasticquotas"):  # leaves first, then what is above them
        eventually(partial(_is_clear, found, kind), what=f"no {kind} of this test are left")
    federation.api.delete("quotatree", found.name)


def _is_clear(grove: Grove, kind: str) -> bool:
    api = grove.federation.api
    items = api.list(kind, labels=f"test={grove.name}")
    for one in items:
        with contextlib.suppress(NotThereError):
            try:
                api.delete(kind, one["metadata"]["name"], one["metadata"].get("namespace"))
            except RefusedError as error:
                if "below it" not in str(error):  # its children come first
                    raise
    return not items
