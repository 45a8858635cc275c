"""People with client certificates of their own, and the roles that a tenant of a real Karmada has."""

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from localfed.api import Api
from localfed.federation import Federation
from localfed.kubectl import Kubectl, KubectlError
from tests.federation.stage import Stage, eventually

EDITED = {
    "policy.karmada.io": ["propagationpolicies", "overridepolicies"],
    "work.karmada.io": ["resourcebindings", "resourcebindings/status", "works", "works/status"],
}
"""What Karmada's own installers add to the role `edit`, and so to `admin`. A local federation is installed by hand."""


@dataclass(frozen=True)
class Person:
    """Somebody at a terminal, in one namespace."""

    federation: Federation
    name: str
    groups: tuple[str, ...]
    namespace: str

    @cached_property
    def kubectl(self) -> Kubectl:
        return self.federation.person(self.name, *self.groups)

    @cached_property
    def api(self) -> Api:
        """Their own connections: what they do most often, without a process for it."""
        return Api(self.kubectl.kubeconfig)

    def at(self, namespace: str) -> "Person":
        """The same person, in another namespace."""
        return replace(self, namespace=namespace)

    def __call__(self, *arguments: str, manifest: dict[str, Any] | None = None) -> str:
        return self.kubectl(*arguments, "-n", self.namespace, manifest=json.dumps(manifest) if manifest else None)

    def apply(self, *manifests: dict[str, Any]) -> None:
        self.api.apply(*manifests, namespace=self.namespace)

    def kubectl_apply(self, manifest: dict[str, Any], *flags: str) -> str:
        """What kubectl says to it."""
        return self("apply", *flags, "-f", "-", manifest=manifest)

    def refusal(self, *arguments: str, manifest: dict[str, Any] | None = None) -> str:
        """Why that was not done; empty where it was."""
        try:
            self(*arguments, manifest=manifest)
        except KubectlError as error:
            return error.stderr
        return ""

    def may(self, verb: str, resource: str) -> bool:
        """Whether roles let them: what `kubectl auth can-i` asks, of `karmadaquotas.quota.karmada.io/status` say."""
        named, _, subresource = resource.partition("/")
        plural, _, group = named.partition(".")
        what = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
        spec = {
            "user": self.name,
            "groups": [*self.groups, "system:authenticated"],
            "resourceAttributes": {**what, "namespace": self.namespace},
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": spec}
        return bool(self.federation.api.create(review)["status"]["allowed"])


def administrator(federation: Federation, namespace: str) -> Person:
    """Somebody who may do everything."""
    return Person(federation, "admin", ("system:masters",), namespace)


def tenant(stage: Stage, name: str, *groups: str, role: str = "admin") -> Person:
    """Somebody with that built-in role in the namespace of the stage, as Karmada has it."""
    federation = stage.federation
    _edited(federation)
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{name}-{role}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
    }
    stage.apply(binding)
    person = Person(federation, name, groups, stage.namespace)
    wanted = ("update", "resourcebindings.work.karmada.io") if role != "view" else ("get", "deployments.apps")
    eventually(lambda: person.may(*wanted), what=f"{name} has the role {role}")
    return person


def _edited(federation: Federation) -> None:
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
    rules = [{"apiGroups": [group], "resources": kinds, "verbs": verbs} for group, kinds in EDITED.items()]
    labels = {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}
    metadata = {"name": "karmada-edit", "labels": labels}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    federation.api.apply(role)
