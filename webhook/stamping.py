"""The stamp on a binding: written here, by nobody else, from what the template says.

A mutating review. Whatever a client wrote into the annotation is overwritten: with the stamp that the binding had, or,
where it is new or its template has changed, with one made from the template as it is now. Where Karmada wrote what is
asked for into the binding itself, the template is not read, and a stamp that would say no more is not written.

Where there are elastic quotas, the stamp also says under which leaf a binding is, and the template is read for the
quota that it names:

- What has no clusters is associated when it is created, when its template changes, and when its leaf is gone or no
  longer for its namespace, which may have come under another. A template that names a quota it cannot have is refused.
- What runs stays where it is, unless its template comes to name another quota. That is then an increase of the other,
  and refused if there is no room. Nobody's running workload is turned away because its namespace was moved.

Under a leaf the stamp says whose the workload is, too, whether there are limits for users or not: those that come later
find the owners of all that runs. It costs nothing there: the template is read, and the stamp written, in any case. What
is under no leaf is under no limit, and its stamp says nothing of owners.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from federation_quota import identity, stamp, workload
from federation_quota.binding import TemplateRef
from federation_quota.elastic.association import AssociationError
from federation_quota.group_resource import WORKLOADS, GroupResource
from federation_quota.identity import IdentityError
from federation_quota.kube import codec, error
from federation_quota.kube.client import Client
from federation_quota.kube.discovery import Discovery, UnknownResourceError
from federation_quota.kube.outline import Outline
from federation_quota.kube.resource import Resource
from federation_quota.stamp import (
    FALSE,
    OWNER_ANNOTATION,
    PREEMPTIBLE_LABEL,
    QUOTA_NAME_LABEL,
    STAMP_ANNOTATION,
    TRUE,
    Owner,
    Stamp,
)
from federation_quota.workload import Manifest
from webhook.leaves import Leaves
from webhook.review import ALLOWED, Verdict, later, refuse

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Stamping:
    """Stamps bindings as they are created and changed."""

    client: Client
    discovery: Discovery
    priorities: Mapping[str, int]  # the value of each priority class
    leaves: Leaves | None = None  # None: there are no elastic quotas
    workloads: frozenset[GroupResource] = frozenset(WORKLOADS)  # the kinds that have owners
    timeout_seconds: float = 2.0
    unreadable: set[str] = field(default_factory=set)  # the kinds of which it was said that their class is not known

    async def __call__(self, new: Outline, old: Outline | None) -> Verdict:
        """The patch that stamps a binding; nothing where it carries, or means, the right stamp already."""
        if new.is_deleting:
            return ALLOWED
        known = old.stamp if old is not None and old.template == new.template else stamp.NO_STAMP
        if known != stamp.NO_STAMP and not known.fault and not self._is_astray(old, known):
            return _patched(new, known)
        try:
            if self.leaves is not None and self.leaves.exist:
                return await self._associated(new, old, self.leaves)
            return _patched(new, (await self._stamp(new, old))[0])
        except error.KubeError as problem:
            return later(f"what {new.key} propagates could not be read: {problem}")
        except AssociationError as problem:
            return refuse(403, "Forbidden", f"{new.key}: {problem}")

    def _is_astray(self, old: Outline | None, known: Stamp) -> bool:
        """Whether what has no clusters yet is to be associated anew, although its template is what it was."""
        if self.leaves is None or not self.leaves.exist or old is None or old.has_clusters:
            return False
        return self.leaves.is_astray(old.key.namespace, known.leaf)

    async def _associated(self, new: Outline, old: Outline | None, leaves: Leaves) -> Verdict:
        """The patch that also says under which leaf it is, whose, and whether it can be displaced there."""
        said, manifest = await self._stamp(new, old, reads_template=True)
        labels = _metadata(manifest, "labels")
        current = old.stamp.leaf if old is not None and old.has_clusters else None
        leaf = await leaves.leaf_of(new.key.namespace, labels.get(QUOTA_NAME_LABEL, ""), current)
        owner = self._owner(GroupResource(new.template.group, said.resource), manifest, old) if leaf else None
        verdict = _patched(new, replace(said, leaf=leaf, owner=owner))
        return replace(verdict, patch=(*verdict.patch, *_preemptible(new, labels))) if leaf else verdict

    def _owner(self, kind: GroupResource, manifest: Manifest | None, old: Outline | None) -> Owner | None:
        """Whose it is by its template; what it was where that cannot be read. On a kind that the hook for owners is not
        asked about, anybody may have written anything."""
        if kind not in self.workloads:
            return None
        if manifest is None:
            return old.stamp.owner if old is not None else None
        text = _metadata(manifest, "annotations").get(OWNER_ANNOTATION, "")
        try:
            return identity.decode(text) if text else None
        except IdentityError as problem:
            # From before there was a hook: since then nobody could have written it.
            log.warning("stamping.owner_unreadable", kind=str(kind), problem=str(problem))
            return None

    async def _stamp(
        self, binding: Outline, old: Outline | None, *, reads_template: bool = False
    ) -> tuple[Stamp, Manifest | None]:
        """What the template says now, and the template where it is wanted and can have pods.

        A template that is gone takes its binding along: what that was counts until then.
        """
        template = binding.template
        try:
            resource = await self.discovery.of_object(template.api_version, template.kind)
        except UnknownResourceError:
            return stamp.NO_STAMP if old is None or old.stamp.fault else old.stamp, None
        name = binding.priority_class
        manifest = None
        if (name is None or reads_template) and workload.may_have_pods(template):
            manifest = await self._read(template, resource)
        if name is None:
            name = workload.priority_class(manifest) if manifest else ""
        return Stamp(priority_class=name, priority=self.priorities.get(name, 0), resource=resource.plural), manifest

    async def _read(self, template: TemplateRef, resource: Resource) -> Manifest | None:
        namespace = template.namespace if resource.namespaced else None
        try:
            body = await self.client.get(resource, template.name, namespace, timeout_seconds=self.timeout_seconds)
        except error.NotFoundError:
            return None
        except error.ForbiddenError as problem:
            # An administrator has not named this kind, and nobody is to be kept from using it for that.
            if resource.plural not in self.unreadable:
                self.unreadable.add(resource.plural)
                log.warning("stamping.class_unknown", kind=template.kind, group=resource.group, problem=str(problem))
            return None
        return codec.decode_object(body)


def _metadata(manifest: Manifest | None, field_name: str) -> Mapping[str, str]:
    return ((manifest or {}).get("metadata") or {}).get(field_name) or {}


def _patched(binding: Outline, wanted: Stamp) -> Verdict:
    annotations = binding.metadata.annotations
    if binding.stamp == wanted and wanted != stamp.NO_STAMP:
        return ALLOWED
    text = wanted.encode()
    if not annotations:
        return Verdict(patch=({"op": "add", "path": "/metadata/annotations", "value": {STAMP_ANNOTATION: text}},))
    path = "/metadata/annotations/" + STAMP_ANNOTATION.replace("~", "~0").replace("/", "~1")
    return Verdict(patch=({"op": "add", "path": path, "value": text},))


def _preemptible(binding: Outline, labels: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    """What makes the binding say what its template says; most say nothing."""
    wanted = FALSE if labels.get(PREEMPTIBLE_LABEL) == FALSE else TRUE
    known = binding.metadata.labels or {}
    if known.get(PREEMPTIBLE_LABEL, TRUE) == wanted:
        return ()
    if not known:
        return ({"op": "add", "path": "/metadata/labels", "value": {PREEMPTIBLE_LABEL: wanted}},)
    path = "/metadata/labels/" + PREEMPTIBLE_LABEL.replace("~", "~0").replace("/", "~1")
    return ({"op": "add", "path": path, "value": wanted},)
