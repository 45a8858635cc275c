"""Reviews of QuotaTrees, ElasticQuotas and CompositeElasticQuotas: what may be stored, and by whom.

A change is judged as a whole, beside everything that is stored and what this replica let through a moment ago. Nobody
is refused for what this replica has not seen yet: before a refusal everything is read anew.

Administrators are those who may do the same to a QuotaTree. The API server itself tells them from everybody else, by
the hook that it calls: others change only what is below a quota that names them as its manager.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from federation_quota.elastic import quota as quotas
from federation_quota.elastic import topology, validation
from federation_quota.elastic.forest import Forest, Root, read_root
from federation_quota.elastic.quota import Quota, QuotaError
from federation_quota.elastic.underway import Underway
from federation_quota.field_error import FieldError, summarise
from federation_quota.kube import codec
from federation_quota.kube.forest import ForestMirror
from federation_quota.kube.quotas import COMPOSITE_ELASTIC_QUOTAS, ELASTIC_QUOTAS, QUOTA_TREES, identity
from federation_quota.label_selector import SelectorError
from federation_quota.quantity import QuantityError
from webhook.review import ALLOWED, Verdict, later, refuse

_KINDS: Final = {one.plural: one.kind for one in (ELASTIC_QUOTAS, COMPOSITE_ELASTIC_QUOTAS, QUOTA_TREES)}
_GROUP: Final = QUOTA_TREES.group

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trail:
    """What a replica let through lately, and whose turn it is: one for both of its hooks."""

    quotas: Underway[Quota] = field(default_factory=Underway)
    roots: Underway[Root] = field(default_factory=Underway)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class ElasticReview:
    """Validates elastic quotas and trees, and keeps their status the system's own."""

    mirror: ForestMirror
    is_system: Callable[[str], bool]
    trail: Trail
    is_for_managers: bool = False
    """Whether who asks is no administrator."""

    async def __call__(self, request: codec.AdmissionRequest, deadline: float) -> Verdict:
        """Judge a change to one of the three kinds, or to a status."""
        kind = _KINDS.get(request.resource.resource)
        if kind is None:
            return refuse(400, "BadRequest", f"{request.resource.resource!r} is no kind of elastic trees")
        if request.sub_resource:
            return ALLOWED if self.is_system(request.user_info.username) else _not_yours(kind, request)
        change = _Change.read(request, kind)
        if change.errors:
            return _invalid(kind, change.name, change.errors)
        if not self.mirror.is_synced:
            return later("quotas are still being read")
        async with self.trail.turn:
            return await self._judge(request, change, deadline)

    async def _judge(self, request: codec.AdmissionRequest, change: "_Change", deadline: float) -> Verdict:
        clock = asyncio.get_running_loop().time
        verdict = self._look(request, change, self._coming(clock()))
        if not verdict.is_allowed:
            if not await self.mirror.refresh(deadline - clock()):
                return later("quotas could not be read anew in time")
            verdict = self._look(request, change, self.mirror.forest)
            if verdict.is_allowed and not self._look(request, change, self._coming(clock())).is_allowed:
                return later("another change of these quotas is under way")
        if verdict.is_allowed and not request.dry_run:
            self._note(change, clock())
        return verdict

    def _coming(self, now: float) -> Forest:
        """What is stored, and what will be."""
        stored = {**self.mirror.elastic.items, **self.mirror.composites.items}
        found, roots = self.trail.quotas.beside(stored, now), self.trail.roots.beside(self.mirror.trees.items, now)
        return self.mirror.forest_of(found, roots)

    def _look(self, request: codec.AdmissionRequest, change: "_Change", forest: Forest) -> Verdict:
        user = request.user_info
        quotas_changed = [one for one in (change.old, change.new) if isinstance(one, Quota)]
        if self.is_for_managers and not topology.may_manage(forest, user.username, user.groups, *quotas_changed):
            return refuse(
                403,
                "Forbidden",
                f"{user.username!r} is no administrator of quotas, and no CompositeElasticQuota above {change.name!r} "
                "names them in spec.managers",
            )
        errors = change.check(forest, is_namespace_going=self.mirror.is_going(request.namespace))
        if errors:
            return _invalid(change.kind, change.name, errors)
        return Verdict(warnings=(*change.warnings, *change.limit_warnings(forest)))

    def _note(self, change: "_Change", now: float) -> None:
        made = identity(change.document)
        if change.is_tree:
            self.trail.roots.note(change.name, change.new if isinstance(change.new, Root) else None, made, now)
        else:
            self.trail.quotas.note(change.name, change.new if isinstance(change.new, Quota) else None, made, now)


@dataclass(frozen=True, slots=True)
class _Change:
    """A review as values: from the old to the new, either of which may be missing."""

    kind: str
    name: str
    document: Object
    """The object as it would be stored; in a deletion, as it is."""
    old: Quota | Root | None
    new: Quota | Root | None
    errors: list[FieldError]
    """What is wrong with the new one by itself."""
    is_spec_changed: bool = True

    @classmethod
    def read(cls, request: codec.AdmissionRequest, kind: str) -> "_Change":
        """The change of a review; CodecError where it is none."""
        before = None if request.operation == "CREATE" else _document(request.old_object, kind, request)
        after = None if request.operation == "DELETE" else _document(request.object, kind, request)
        document = after or before
        if document is None:
            raise codec.CodecError("a review without an object")
        is_tree = kind == QUOTA_TREES.kind
        validate = validation.validate_root if is_tree else validation.validate_quota
        errors = [] if after is None else validate(after, before)
        is_spec_changed = after is None or before is None or after.get("spec") != before.get("spec")
        # An old one that cannot be read came past the rules: it stands in the way of nothing.
        old = None if before is None else _value(before, is_tree, must=False)
        new = None if after is None or errors else _value(after, is_tree, must=is_spec_changed)
        name = document["metadata"]["name"] if is_tree else quotas.name_of(document)
        return cls(kind, name, document, old, new, errors, is_spec_changed)

    @property
    def is_tree(self) -> bool:
        """Whether it is about a QuotaTree."""
        return self.kind == QUOTA_TREES.kind

    @property
    def warnings(self) -> list[str]:
        """What whoever makes it should hear."""
        return validation.warnings(self.document) if isinstance(self.new, Quota) and self.is_spec_changed else []

    def limit_warnings(self, forest: Forest) -> list[str]:
        """The same about its limits, beside those of others."""
        return topology.limit_warnings(forest, self.new) if self.new is not None and self.is_spec_changed else []

    def check(self, forest: Forest, *, is_namespace_going: bool) -> list[FieldError]:
        """What stands against it, beside everything else."""
        if not self.is_spec_changed:
            return []
        old, new = self.old, self.new
        if isinstance(new, Root):
            return topology.check_root(forest, new)
        if isinstance(new, Quota):
            root = forest.root(new.tree)
            if root is not None and root.default_group == new.name:
                new = replace(new, node=replace(new.node, is_parent=False))
            return topology.check_quota(forest, new, old if isinstance(old, Quota) else None)
        if isinstance(old, Root):
            return topology.check_root_deletion(forest, old)
        if isinstance(old, Quota):
            return topology.check_quota_deletion(forest, old, is_namespace_going=is_namespace_going)
        return []


def _document(body: codec.Encoded, kind: str, request: codec.AdmissionRequest) -> Object:
    document = codec.decode_object(body)
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise codec.CodecError(f"{kind}: metadata.name must be there")
    if kind == ELASTIC_QUOTAS.kind:
        metadata = {**metadata, "namespace": request.namespace}
    return {**document, "kind": kind, "metadata": metadata}


def _value(document: Object, is_tree: bool, *, must: bool) -> Quota | Root | None:
    try:
        return read_root(document) if is_tree else quotas.read(document)
    except (QuotaError, QuantityError, SelectorError, KeyError, TypeError, AttributeError) as problem:
        if must:
            raise codec.CodecError(f"{document['kind']} {document['metadata']['name']}: {problem}") from problem
        return None


def _not_yours(kind: str, request: codec.AdmissionRequest) -> Verdict:
    return refuse(
        403,
        "Forbidden",
        f"the status of a {kind} is written by federation-quota alone, not by {request.user_info.username!r}: "
        "change spec instead",
    )


def _invalid(kind: str, name: str, errors: list[FieldError]) -> Verdict:
    return Verdict(
        is_allowed=False,
        code=422,
        reason="Invalid",
        message=f'{kind}.{_GROUP} "{name}" is invalid: {summarise(errors)}',
        causes=tuple(one.to_cause() for one in errors),
    )
