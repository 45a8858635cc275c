"""Koordinator's quotas, and the labels of workloads that name them, as ours.

There one kind says everything with labels and annotations; here a parent is a CompositeElasticQuota without
namespaces, a leaf one with them, or an ElasticQuota where it is the quota of its own namespace. Both spellings are
read, that of the released code and that of the first proposal (`parent-quota-name`, `quota-name`).
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from federation_quota import stamp
from federation_quota.elastic.imported import TREE, Imported, Manifest, amounts, checked, describe, limited
from federation_quota.elastic.quota import COMPOSITE, ELASTIC
from federation_quota.elastic.tree import DEFAULT

PREFIX: Final = "quota.scheduling.koordinator.sh"
SYSTEM_QUOTA: Final = "koordinator-system-quota"
ROOT_QUOTA: Final = "koordinator-root-quota"
DEFAULT_QUOTA: Final = "koordinator-default-quota"

_GROUP: Final = "scheduling.sigs.k8s.io"
_PROFILES: Final = "quota.koordinator.sh"
_PARENT: Final = (f"{PREFIX}/parent", f"{PREFIX}/parent-quota-name")
_QUOTA_NAME: Final = (f"{PREFIX}/name", f"{PREFIX}/quota-name")
# Written by its scheduler, or about nodes: nothing is lost with them.
_STATUS: Final = frozenset(
    f"{PREFIX}/{name}"
    for name in (
        "runtime", "request", "child-request", "guaranteed", "allocated", "non-preemptible-request",
        "non-preemptible-used", "unschedulable-resource", "profile", "resource-keys",
    )
)  # fmt: skip
_READ: Final = frozenset(
    {*_PARENT, *_QUOTA_NAME}
    | {
        f"{PREFIX}/{name}"
        for name in (
            "is-parent", "allow-lent-resource", "is-root", "tree-id", "shared-weight", "namespaces", "total-resource",
            "admission", "max-strict-check-resource-keys", "preemptible",
        )
    }
)  # fmt: skip
_NOT_HERE: Final = {
    f"{PREFIX}/allow-force-update": "there is no way around the rules here: a change is accepted or refused as a whole",
    f"{PREFIX}/ignore-default-tree": "here a cluster belongs to one tree, so there is nothing to subtract",
}


def convert(manifests: Iterable[Manifest]) -> Imported:
    """Our objects for these manifests, and what could not be carried over."""
    imported = Imported()
    given = list(manifests)
    found = [one for one in given if _is_quota(one)]
    roots = {_name(one): _tree_of(one) for one in found if _flag(one, "is-root")}
    seen: dict[str, Manifest] = {}
    for one in found:
        name = _name(one)
        if name in seen:
            imported.note(one, f"names are one for all namespaces there, and {describe(seen[name])} has this one")
        elif name == ROOT_QUOTA:
            imported.note(one, "the root of a tree is no quota here: what there is to share is the clusters'")
        elif name == SYSTEM_QUOTA:
            imported.note(one, "list the system's namespaces in spec.systemGroup of the QuotaTree instead")
        elif name in roots:
            _tree(one, imported)
        else:
            _quota(one, roots, imported)
        seen.setdefault(name, one)
    for one in given:
        if str(one.get("apiVersion", "")).startswith(f"{_PROFILES}/"):
            imported.note(one, "a profile selects nodes, and a tree here selects clusters: write spec.clusterSelector")
        elif not _is_quota(one):
            _workload(one, imported)
    return checked(imported)


def _is_quota(one: Manifest) -> bool:
    return one.get("kind") == ELASTIC and str(one.get("apiVersion", "")).startswith(f"{_GROUP}/")


def _quota(one: Manifest, roots: Mapping[str, str], imported: Imported) -> None:
    metadata, given = one.get("metadata") or {}, one.get("spec") or {}
    name = _name(one)
    spec: dict[str, Any] = {}
    parent = next((text for key in _PARENT if (text := _text(one, key))), "")
    tree = roots.get(parent) or _text(one, f"{PREFIX}/tree-id")
    if tree and tree != DEFAULT:
        spec["tree"] = tree
    if parent and parent != ROOT_QUOTA and parent not in roots:
        spec["parent"] = parent
    spec["min"] = amounts(given.get("min"), one, "min", imported)
    spec["max"] = limited(amounts(given.get("max"), one, "max", imported))
    weight = amounts(_json(one, "shared-weight", imported), one, "shared-weight", imported)
    if weight and weight != spec["max"]:
        spec["sharedWeight"] = weight
    if _text(one, f"{PREFIX}/allow-lent-resource") == stamp.FALSE:
        spec["allowLentResource"] = False
    admission = amounts(_json(one, "admission", imported), one, "admission", imported)
    if admission:
        spec["admission"] = admission
    strict = _json(one, "max-strict-check-resource-keys", imported)
    if isinstance(strict, list):
        spec["strictMax"] = [str(resource) for resource in strict]
    _note_the_rest(one, imported)
    if _flag(one, "is-parent"):
        imported.add(COMPOSITE, name, None, spec)
        return
    if name == DEFAULT_QUOTA:
        imported.add(COMPOSITE, name, None, spec)
        imported.add(TREE, DEFAULT, None, {"defaultGroup": name})
        return
    namespaces = _json(one, "namespaces", imported)
    if isinstance(namespaces, list) and namespaces:
        imported.add(COMPOSITE, name, None, {**spec, "namespaces": [str(each) for each in namespaces]})
    elif metadata.get("namespace") == name:
        imported.add(ELASTIC, name, name, spec)
    else:
        imported.note(one, "is for whoever names it, as there: narrow spec.offeredTo to those who should")
        imported.add(COMPOSITE, name, None, {**spec, "offeredTo": {"namespaceSelector": {}}})


def _tree(one: Manifest, imported: Imported) -> None:
    total = amounts(_json(one, "total-resource", imported), one, "total-resource", imported)
    imported.add(TREE, _tree_of(one), None, {"total": total})
    imported.note(
        one,
        "became a QuotaTree: its min and max were left out, and spec.total is fixed until spec.clusterSelector is set",
    )
    _note_the_rest(one, imported)


def _workload(one: Manifest, imported: Imported) -> None:
    """Anything else: passed on as it is, with our labels beside theirs where it names a quota."""
    labels = _labels(one)
    pod = ((one.get("spec") or {}).get("template") or {}) if isinstance(one.get("spec"), Mapping) else {}
    theirs = {**(_labels(pod) if isinstance(pod, Mapping) else {}), **labels}
    ours = {}
    quota = next((theirs[key] for key in _QUOTA_NAME if theirs.get(key)), None)
    if quota is not None:
        ours[stamp.QUOTA_NAME_LABEL] = quota
    if theirs.get(f"{PREFIX}/preemptible") == stamp.FALSE:
        ours[stamp.PREEMPTIBLE_LABEL] = stamp.FALSE
    if ours:
        metadata = {**(one.get("metadata") or {}), "labels": {**labels, **ours}}
        imported.others.append({**one, "metadata": metadata})
    else:
        imported.note(one, "is no quota and names none: it was left out")


def _note_the_rest(one: Manifest, imported: Imported) -> None:
    metadata = one.get("metadata") or {}
    for key in sorted({*(metadata.get("labels") or {}), *(metadata.get("annotations") or {})}):
        if key in _NOT_HERE:
            imported.note(one, f"{key} was left out: {_NOT_HERE[key]}")
        elif key.startswith(f"{PREFIX}/") and key not in _READ | _STATUS:
            imported.note(one, f"{key} is not known here and was left out")


def _name(one: Manifest) -> str:
    return str((one.get("metadata") or {}).get("name") or "")


def _tree_of(one: Manifest) -> str:
    return _text(one, f"{PREFIX}/tree-id") or _name(one)


def _flag(one: Manifest, name: str) -> bool:
    return _text(one, f"{PREFIX}/{name}") == stamp.TRUE


def _labels(one: Manifest) -> dict[str, str]:
    labels = (one.get("metadata") or {}).get("labels") or {}
    return {key: _as_text(value) for key, value in labels.items()}


def _text(one: Manifest, key: str) -> str:
    """A label's value; people write true and false without quotes."""
    return _labels(one).get(key, "")


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json(one: Manifest, name: str, imported: Imported) -> object:
    """An annotation's value, which should be JSON; the loose form of the proposal, {cpu:4, memory: 8Gi}, is read."""
    value = ((one.get("metadata") or {}).get("annotations") or {}).get(f"{PREFIX}/{name}")
    if value is None or not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        pairs = re.findall(r"([\w./-]+)\s*:\s*\"?([\w.]+)\"?", value)
        if pairs and re.fullmatch(r"\s*\{.*\}\s*", value):
            return dict(pairs)
    imported.note(one, f"{PREFIX}/{name} cannot be read and was left out: {value[:80]!r}")
    return None
