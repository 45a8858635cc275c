"""What an import gives: objects of ours, and what could not be carried over.

Common to all importers: reading amounts that others wrote, and a last look at the whole with our own rules, so that
what would be refused is said before anybody applies it. Pure: manifests in, manifests out; files are others' business.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federation_quota.elastic import quota as quotas
from federation_quota.elastic import topology, unit, validation
from federation_quota.elastic.forest import Forest, Root, read_root
from federation_quota.elastic.quota import COMPOSITE, Quota, QuotaError
from federation_quota.label_selector import SelectorError
from federation_quota.quantity import ZERO, Quantity, QuantityError, from_json
from federation_quota.resource_name import canonical

Manifest = Mapping[str, Any]

API_VERSION: Final = "quota.karmada.io/v1alpha1"
TREE: Final = "QuotaTree"

# Others write «no limit» as a part of the largest integer. Nothing real comes near.
_UNLIMITED: Final = 2**63 // 2000


@dataclass(frozen=True, slots=True)
class Note:
    """Something that is not as it was: about which object, and what."""

    about: str
    """Kind, and namespace and name, as it was given."""
    what: str

    def __str__(self) -> str:
        return f"{self.about}: {self.what}"


@dataclass(slots=True)
class Imported:
    """Objects to apply, in order, and notes."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    others: list[dict[str, Any]] = field(default_factory=list)
    """Manifests of workloads, with our labels on them."""
    notes: list[Note] = field(default_factory=list)

    def note(self, manifest: Manifest, what: str) -> None:
        """Say something about a manifest that was given."""
        self.notes.append(Note(describe(manifest), what))

    def add(self, kind: str, name: str, namespace: str | None, spec: Mapping[str, Any]) -> None:
        """One more object."""
        metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
        self.objects.append({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)})


def describe(manifest: Manifest) -> str:
    """A manifest, as people find it again."""
    metadata = manifest.get("metadata") or {}
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{manifest.get('kind') or 'object'} {where}{metadata.get('name') or '(without a name)'}"


def amounts(given: object, manifest: Manifest, place: str, imported: Imported) -> dict[str, str]:
    """Amounts as we store them: canonical names, whole steps. What is no amount is left out and noted."""
    found: dict[str, str] = {}
    if given is not None and not isinstance(given, Mapping):
        imported.note(manifest, f"{place} is no map of resources and was left out")
        return found
    for name, text in (given or {}).items() if isinstance(given, Mapping) else ():
        try:
            amount = from_json(text)
        except QuantityError as error:
            imported.note(manifest, f"{place} of {name} was left out: {error}")
            continue
        if amount < ZERO:
            imported.note(manifest, f"{place} of {name} is below zero, {amount}, and was left out")
            continue
        resource = canonical(str(name))
        if not unit.is_whole(resource, amount):
            step = unit.step(resource)
            rounded = Quantity(-(-amount.nano // step) * step, amount.format)
            imported.note(manifest, f"{place} of {name} was rounded up from {amount} to {rounded}")
            amount = rounded
        found[resource] = amount.to_json()
    return found


def limited(found: Mapping[str, str]) -> dict[str, str]:
    """A max without those that are no limits but in name."""
    return {name: amount for name, amount in found.items() if from_json(amount).whole() < _UNLIMITED}


def checked(imported: Imported) -> Imported:
    """The same, with a note for everything that our own rules would refuse; what others need comes first."""
    roots: list[Root] = []
    found: list[tuple[dict[str, Any], Quota]] = []
    for one in imported.objects:
        try:
            if one["kind"] == TREE:
                errors = validation.validate_root(one)
                roots.append(read_root(one))
            else:
                errors = validation.validate_quota(one)
                found.append((one, quotas.read(one, is_default_group=_is_default_group(one, imported.objects))))
        except (QuotaError, QuantityError, SelectorError) as error:
            imported.note(one, f"would be refused: {error}")
            continue
        for refusal in errors:
            imported.note(one, f"would be refused: {refusal}")
    forest = Forest.of((quota for _, quota in found), roots)
    for root in roots:
        for refusal in topology.check_root(forest, root):
            imported.notes.append(Note(f"{TREE} {root.name}", f"would be refused: {refusal}"))
    for one, quota in found:
        for refusal in topology.check_quota(forest, quota):
            imported.note(one, f"would be refused: {refusal}")
    _sort(imported, forest)
    return imported


def _is_default_group(one: Manifest, objects: Iterable[Manifest]) -> bool:
    return one["kind"] == COMPOSITE and any(
        other["kind"] == TREE and other["spec"].get("defaultGroup") == one["metadata"]["name"] for other in objects
    )


def _sort(imported: Imported, forest: Forest) -> None:
    def place(one: Manifest) -> tuple[int, int, str]:
        if one["kind"] == TREE:
            # The default tree names its default group, which must be there first.
            return (2 if one["spec"].get("defaultGroup") else 0), 0, one["metadata"]["name"]
        quota = forest.quotas.get(quotas.name_of(one))
        return 1, len(forest.ancestors(quota)) if quota else 0, quotas.name_of(one)

    imported.objects.sort(key=place)
