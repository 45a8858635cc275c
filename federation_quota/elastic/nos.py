"""The quotas of nos, and of nebulnetes as it was called before, as ours: leaves of a tree that shares by giving way.

There a CompositeElasticQuota is in a namespace; here it is not, so that two of one name get names of their own. What
nos tolerates and then mends behind one's back, a namespace under two quotas, is decided here, and said.
"""

from collections.abc import Iterable
from typing import Any, Final

from federation_quota.elastic.forest import FAIR_SHARE
from federation_quota.elastic.imported import TREE, Imported, Manifest, amounts, checked, describe, limited
from federation_quota.elastic.quota import COMPOSITE, ELASTIC
from federation_quota.elastic.tree import DEFAULT

GROUPS: Final = ("nos.nebuly.com", "n8s.nebuly.ai")


def convert(manifests: Iterable[Manifest]) -> Imported:
    """Our objects for these manifests, and what could not be carried over."""
    imported = Imported()
    composites: list[Manifest] = []
    elastic: list[Manifest] = []
    for one in manifests:
        is_theirs = str(one.get("apiVersion", "")).partition("/")[0] in GROUPS
        if is_theirs and one.get("kind") == COMPOSITE:
            composites.append(one)
        elif is_theirs and one.get("kind") == ELASTIC:
            elastic.append(one)
        else:
            imported.note(one, "is no quota of nos: it was left out")
    if composites or elastic:
        imported.add(TREE, DEFAULT, None, {"mode": FAIR_SHARE})
    owners: dict[str, Manifest] = {}
    names: set[str] = set()
    for one in sorted(composites, key=describe):
        _composite(one, owners, names, imported)
    for one in sorted(elastic, key=describe):
        metadata = one.get("metadata") or {}
        namespace = metadata.get("namespace") or "default"
        if namespace in owners:
            imported.note(one, f"was left out: {describe(owners[namespace])} has namespace {namespace} already")
            continue
        owners[namespace] = one
        imported.add(ELASTIC, str(metadata.get("name") or ""), namespace, _spec(one, imported))
    return checked(imported)


def _composite(one: Manifest, owners: dict[str, Manifest], names: set[str], imported: Imported) -> None:
    metadata, given = one.get("metadata") or {}, one.get("spec") or {}
    name = str(metadata.get("name") or "")
    if name in names:
        name = f"{metadata.get('namespace') or 'default'}-{name}"
        imported.note(one, f"is called {name} here: the kind is in no namespace, and the name is taken")
    names.add(name)
    own: list[str] = []
    for namespace in given.get("namespaces") or ():
        if namespace in owners:
            imported.note(one, f"has no namespace {namespace} here: {describe(owners[namespace])} has it already")
        else:
            owners[namespace] = one
            own.append(str(namespace))
    if not own:
        imported.note(one, "was left out: no namespace is left that it would be for")
        return
    imported.add(COMPOSITE, name, None, {**_spec(one, imported), "namespaces": own})


def _spec(one: Manifest, imported: Imported) -> dict[str, Any]:
    given = one.get("spec") or {}
    spec: dict[str, Any] = {"min": amounts(given.get("min"), one, "min", imported)}
    most = limited(amounts(given.get("max"), one, "max", imported))
    if most:
        spec["max"] = most
    return spec
