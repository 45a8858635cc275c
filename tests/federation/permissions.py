"""What roles grant, and what an audit log says was used of it, in the same words."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

Manifest = dict[str, Any]


class Use(NamedTuple):
    """One thing that a user did, or asked for."""

    user: str
    verb: str
    group: str
    resource: str  # with its subresource: `karmadaquotas/status`
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """One thing that a user may do. Empty: wherever, whatever its name."""

    user: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def covers(self, use: Use) -> bool:
        """Whether that was allowed by this."""
        is_same = (self.user, self.verb, self.group, self.resource) == (use.user, use.verb, use.group, use.resource)
        return is_same and self.namespace in ("", use.namespace) and self.name in ("", use.name)

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" {self.name}" if self.name else ""
        return f"{self.user}: {self.verb} {what}{named}{f' in {self.namespace}' if self.namespace else ''}"


def grants(manifests: Iterable[Manifest]) -> set[Grant]:
    """What the bindings among them grant to whom; URLs that are no resources are left out."""
    found = list(manifests)
    roles = {_key(one): one for one in found if one["kind"] in ("Role", "ClusterRole")}
    granted = set()
    for binding in found:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        namespace = binding["metadata"].get("namespace", "")
        role = roles[binding["roleRef"]["kind"], namespace, binding["roleRef"]["name"]]
        for subject in binding["subjects"]:
            for grant in _rules(role):
                granted.add(replace(grant, user=_user(subject), namespace=namespace))
    return granted


def uses(entries: Iterable[Manifest]) -> set[Use]:
    """What was done. An apply that created something was a creation too: the API server asks for that right as well."""
    done = set()
    for entry in entries:
        use = _use(entry)
        if use is None or is_refused(entry):
            continue
        done.add(use)
        if use.verb == "patch" and (entry.get("responseStatus") or {}).get("code") == 201:
            done.add(use._replace(verb="create"))
    return done


def refused(entries: Iterable[Manifest]) -> set[Use]:
    """What no role allowed."""
    return {use for entry in entries if is_refused(entry) and (use := _use(entry))}


def is_refused(entry: Manifest) -> bool:
    """By its roles: a webhook's refusal is another matter."""
    return bool((entry.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid")


def _use(entry: Manifest) -> Use | None:
    reference = entry.get("objectRef")
    if not reference:
        return None
    subresource = reference.get("subresource")
    return Use(
        user=entry["user"]["username"],
        verb=entry["verb"],
        group=reference.get("apiGroup", ""),
        resource=reference["resource"] + (f"/{subresource}" if subresource else ""),
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
    )


def _rules(role: Manifest) -> Iterator[Grant]:
    for rule in role["rules"]:
        for group in rule.get("apiGroups", []):
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or [""]:
                        yield Grant("", verb, group, resource, name=name)


def _key(role: Manifest) -> tuple[str, str, str]:
    return role["kind"], role["metadata"].get("namespace", ""), role["metadata"]["name"]


def _user(subject: Manifest) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return str(subject["name"])
