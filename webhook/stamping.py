"""The stamp on a binding: written here, by nobody else, from what the template says.

A mutating review. Whatever a client wrote into the annotation is overwritten: with the stamp that the binding had, or,
where it is new or its template has changed, with one made from the template as it is now. Where Karmada wrote what is
asked for into the binding itself, the template is not read, and a stamp that would say no more is not written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from federation_quota import stamp, workload
from federation_quota.binding import TemplateRef
from federation_quota.kube import codec, error
from federation_quota.kube.client import Client
from federation_quota.kube.discovery import Discovery, UnknownResourceError
from federation_quota.kube.outline import Outline
from federation_quota.kube.resource import Resource
from federation_quota.stamp import STAMP_ANNOTATION, Stamp
from webhook.review import ALLOWED, Verdict, later

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Stamping:
    """Stamps bindings as they are created and changed."""

    client: Client
    discovery: Discovery
    priorities: Mapping[str, int]  # the value of each priority class
    timeout_seconds: float = 2.0
    unreadable: set[str] = field(default_factory=set)  # the kinds of which it was said that their class is not known

    async def __call__(self, new: Outline, old: Outline | None) -> Verdict:
        """The patch that stamps a binding; nothing where it carries, or means, the right stamp already."""
        if new.is_deleting:
            return ALLOWED
        known = old.stamp if old is not None and old.template == new.template else stamp.NO_STAMP
        if known != stamp.NO_STAMP and not known.fault:
            wanted = known
        else:
            try:
                wanted = await self._stamp(new)
            except error.KubeError as problem:
                return later(f"what {new.key} propagates could not be read: {problem}")
        return _patched(new, wanted)

    async def _stamp(self, binding: Outline) -> Stamp:
        """What the template says now. One that is gone takes its binding along: what it was counts until then."""
        template = binding.template
        try:
            resource = await self.discovery.of_object(template.api_version, template.kind)
        except UnknownResourceError:
            return stamp.NO_STAMP if binding.stamp.fault else binding.stamp
        name = binding.priority_class
        if name is None:
            manifest = await self._read(template, resource) if workload.may_have_pods(template) else None
            name = workload.priority_class(manifest) if manifest else ""
        return Stamp(priority_class=name, priority=self.priorities.get(name, 0), resource=resource.plural)

    async def _read(self, template: TemplateRef, resource: Resource) -> dict[str, Any] | None:
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


def _patched(binding: Outline, wanted: Stamp) -> Verdict:
    annotations = binding.metadata.annotations
    if binding.stamp == wanted and wanted != stamp.NO_STAMP:
        return ALLOWED
    text = wanted.encode()
    if not annotations:
        return Verdict(patch=({"op": "add", "path": "/metadata/annotations", "value": {STAMP_ANNOTATION: text}},))
    path = "/metadata/annotations/" + STAMP_ANNOTATION.replace("~", "~0").replace("/", "~1")
    return Verdict(patch=({"op": "add", "path": path, "value": text},))
