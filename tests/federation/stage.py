"""One namespace of the federation, as a test acts in it and looks at it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from localfed.api import NotThereError
from localfed.federation import Federation
from tests.federation.news import NEWS


def eventually(condition: Callable[[], object], within_seconds: float = 120, what: str = "it") -> None:
    """Return when the condition holds; fail when it never does.

    The bound is a net against a hang on a machine that does much else, and no statement about speed.
    """
    deadline = time.monotonic() + within_seconds
    while True:
        seen = NEWS.count
        if condition():
            return
        assert time.monotonic() < deadline, f"{what}: not within {within_seconds} s"
        NEWS.wait(seen)


@dataclass(frozen=True)
class Stage:
    """A namespace, with the verbs of a test."""

    federation: Federation
    namespace: str

    def kubectl(self, *arguments: str, context: str | None = None, manifest: str | None = None) -> str:
        return self.federation.kubectl(*arguments, "-n", self.namespace, context=context, manifest=manifest)

    def apply(self, *objects: dict[str, Any]) -> None:
        self.federation.api.apply(*objects, namespace=self.namespace)

    def delete(self, kind: str, name: str) -> None:
        """Return when it is gone."""
        self.federation.api.delete(kind, name, self.namespace)
        eventually(lambda: self.get(kind, name) is None, what=f"{kind} {name} is gone")

    def get(self, kind: str, name: str, context: str | None = None) -> dict[str, Any] | None:
        try:
            return self.federation.api.get(kind, name, self.namespace, context=context)
        except NotThereError:
            return None

    def names(self, kind: str, labels: str | None = None) -> list[str]:
        """The names of the objects of a kind."""
        found = self.federation.api.list(kind, self.namespace, labels=labels)
        return [one["metadata"]["name"] for one in found]

    def binding(self, name: str) -> dict[str, Any] | None:
        return self.get("resourcebinding", f"{name}-deployment")

    def clusters(self, name: str) -> dict[str, int]:
        """The replicas that each cluster was given."""
        found = self.binding(name) or {}
        return {one["name"]: one["replicas"] for one in found.get("spec", {}).get("clusters") or []}

    def in_members(self, name: str) -> dict[str, int]:
        """The replicas that each member was asked to run; members that were asked nothing are left out."""
        found = {}
        for member in self.federation.members:
            deployment = self.get("deployment", name, context=member)
            if deployment:
                found[member] = deployment["spec"]["replicas"]
        return found

    def status(self, quota: str) -> dict[str, Any]:
        found = self.get("karmadaquota", quota)
        return (found or {}).get("status") or {}

    def used(self, quota: str) -> dict[str, str]:
        used: dict[str, str] = self.status(quota).get("used") or {}
        return used

    def waiting(self, quota: str = "q") -> list[str]:
        """The workloads on the quota's list, in order."""
        return [one["name"] for one in self.status(quota).get("waiting") or []]

    @staticmethod
    def used_text(cores: Fraction) -> str:
        """So many cores as Kubernetes writes them."""
        return str(cores) if cores.denominator == 1 else f"{cores * 1000}m"

    def is_active(self, quota: str) -> bool:
        return bool(self.status(quota).get("shape"))

    def quota_active(self, quota: str) -> None:
        eventually(lambda: self.is_active(quota), what=f"quota {quota} is active")

    def events(self, name: str) -> list[dict[str, Any]]:
        """The Events about the object of that name."""
        return self.federation.api.list("events", self.namespace, fields=f"involvedObject.name={name}")

    def has_event(self, name: str, reason: str, text: str) -> bool:
        return any(one["reason"] == reason and text in one["message"] for one in self.events(name))

    def is_refused(self, name: str, text: str) -> bool:
        """Whether Karmada was refused the binding of that workload, in these words."""
        return self.karmada_logged(f", {self.namespace}/{name}. error: ", text) > 0

    def refused_works(self, name: str, text: str) -> int:
        """How often Karmada was refused a Work of that Deployment, in these words."""
        binding = f'namespace="{self.namespace}" binding="{name}-deployment"'
        return self.karmada_logged("to works", "denied the request", binding, text)

    def karmada_logged(self, *texts: str) -> int:
        """How many lines of Karmada's log have all these.

        Users read the same in Events. But Karmada writes all of its Events one by one: where much happens they come
        minutes late, and some never.
        """
        with self.federation.directory.log("karmada-controller-manager").open(errors="replace") as lines:
            return sum(all(text in line for text in texts) for line in lines)
