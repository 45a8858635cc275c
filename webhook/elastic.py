"""Reviews of QuotaTrees, ElasticQuotas and CompositeElasticQuotas: what may be stored, and by whom.

A change is judged as a whole, beside everything that is stored and everything that is under way (`deliberation`).

Administrators are those who may do the same to a QuotaTree. The API server itself tells them from everybody else, by
the hook that it calls: others change only what is below a quota that names them as its manager.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from federation_quota.elastic import delegation, topology, validation
from federation_quota.elastic import quota as quotas
from federation_quota.elastic.forest import Forest, Root, read_root
from federation_quota.elastic.quota import Quota, QuotaError
from federation_quota.elastic.topology import Busy
from federation_quota.elastic.underway import Change
from federation_quota.field_error import FieldError, summarise
from federation_quota.kube import codec
from federation_quota.kube.forest import ForestMirror
from federation_quota.kube.quotas import COMPOSITE_ELASTIC_QUOTAS, ELASTIC_QUOTAS, QUOTA_TREES, identity
from federation_quota.label_selector import SelectorError
from federation_quota.quantity import QuantityError
from webhook.deliberation import Deliberation
from webhook.review import ALLOWED, Verdict, later, refuse

_KINDS: Final = {one.plural: one.kind for one in (ELASTIC_QUOTAS, COMPOSITE_ELASTIC_QUOTAS, QUOTA_TREES)}
_GROUP: Final = QUOTA_TREES.group

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ElasticReview:
    """Validates elastic quotas and trees, and keeps their status the system's own."""

    mirror: ForestMirror
    deliberation: Deliberation
    is_system: Callable[[str], bool]
    is_busy: Busy
    """Whether anything runs in a namespace that is charged to no quota."""
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
        if not self.deliberation.is_ready:
            return later("quotas are still being read")
        look = partial(self._look, request, change)
        if request.dry_run or not change.is_spec_changed:
            return await self.deliberation.weigh(look, deadline)
        return await self.deliberation.admit(look, change.underway, deadline)

    def _look(self, request: codec.AdmissionRequest, change: "_Change", forest: Forest) -> Verdict:
        if self.is_for_managers and (problem := change.overreach(forest, request.user_info)):
            return refuse(
                403, "Forbidden", f"{request.user_info.username!r} is no administrator of quotas, and {problem}"
            )
        if request.operation == "CREATE" and self.mirror.identity_of(change.kind, change.name) is not None:
            # Nothing of it comes, and nobody is to wait for it.
            name = change.document["metadata"]["name"]
            return refuse(409, "AlreadyExists", f'{request.resource.resource}.{_GROUP} "{name}" already exists')
        errors = change.check(forest, self.is_busy, is_namespace_going=self.mirror.is_going(request.namespace))
        if errors:
            return _invalid(change.kind, change.name, errors)
        return Verdict(warnings=(*change.warnings, *change.limit_warnings(forest)))


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
    def underway(self) -> Change:
        """The change as others are told of it."""
        known = identity(self.document)
        if self.new is None:
            version = codec.parse_version(self.document["metadata"].get("resourceVersion"))
            return Change(secrets.token_hex(8), self.kind, self.name, known, None, version)
        return Change(secrets.token_hex(8), self.kind, self.name, known, self.document.get("spec") or {})

    @property
    def warnings(self) -> list[str]:
        """What whoever makes it should hear."""
        return validation.warnings(self.document) if isinstance(self.new, Quota) and self.is_spec_changed else []

    def limit_warnings(self, forest: Forest) -> list[str]:
        """The same about its limits, beside those of others."""
        return topology.limit_warnings(forest, self.new) if self.new is not None and self.is_spec_changed else []

    def overreach(self, forest: Forest, user: codec.UserInfo) -> str:
        """Why somebody who is no administrator may not make it; empty where they may."""
        old, new = (one if isinstance(one, Quota) else None for one in (self.old, self.new))
        if not delegation.may_manage(forest, user.username, user.groups, old, new):
            return f"no CompositeElasticQuota above {self.name!r} names them in spec.managers"
        claimed = delegation.overreach(forest, user.username, user.groups, new, old) if new is not None else []
        if not claimed:
            return ""
        return f"{', '.join(claimed)} was not assigned to them in spec.managedNamespaces of a quota above {self.name!r}"

    def check(self, forest: Forest, is_busy: Busy, *, is_namespace_going: bool) -> list[FieldError]:
        """What stands against it, beside everything else."""
        if not self.is_spec_changed:
            return []
        old, new = self.old, self.new
        if isinstance(new, Root):
            return topology.check_root(forest, new, old if isinstance(old, Root) else None, is_busy)
        if isinstance(new, Quota):
            root = forest.root(new.tree)
            if root is not None and root.default_group == new.name:
                new = replace(new, node=replace(new.node, is_parent=False))
            return topology.check_quota(forest, new, old if isinstance(old, Quota) else None)
        if isinstance(old, Root):
            return topology.check_root_deletion(forest, old, is_busy)
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
