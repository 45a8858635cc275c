"""The stamp on a binding: written here, by nobody else, from what the template says.

A mutating review. Whatever a client wrote into the annotation is overwritten: with the stamp that the binding had, or,
where it is new or its template has changed, with one made from the template as it is now. Where Karmada wrote what is
asked for into the binding itself, the template is not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from federation_quota import stamp, workload
from federation_quota.binding import Binding, TemplateRef
from federation_quota.kube import codec, error, outline
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

    async def __call__(self, request: codec.AdmissionRequest, deadline: float) -> Verdict:
        """The patch that stamps a binding; nothing where it carries the right stamp already."""
        new, seen = codec.decode_binding(request.object), outline.decode(request.object)
        old = codec.decode_binding(request.old_object) if request.operation == "UPDATE" else None
        if new.is_deleting:
            return ALLOWED
        if old is not None and old.template == new.template and old.stamp != stamp.NO_STAMP and not old.stamp.fault:
            wanted = old.stamp
        else:
            try:
                wanted = await self._stamp(new, seen)
            except error.KubeError as problem:
                return later(f"what {new.key} propagates could not be read: {problem}")
        return _patched(new, seen, wanted)

    async def _stamp(self, binding: Binding, seen: Outline) -> Stamp:
        """What the template says now. One that is gone takes its binding along: what it was counts until then."""
        template = binding.template
        try:
            resource = await self.discovery.of_object(template.api_version, template.kind)
        except UnknownResourceError:
            return replace(binding.stamp, fault="") if not binding.stamp.fault else stamp.NO_STAMP
        name = seen.priority_class
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


def _patched(binding: Binding, seen: Outline, wanted: Stamp) -> Verdict:
    annotations = seen.metadata.annotations
    if binding.stamp == wanted and annotations and STAMP_ANNOTATION in annotations:
        return ALLOWED
    text = wanted.encode()
    if not annotations:
        return Verdict(patch=({"op": "add", "path": "/metadata/annotations", "value": {STAMP_ANNOTATION: text}},))
    path = "/metadata/annotations/" + STAMP_ANNOTATION.replace("~", "~0").replace("/", "~1")
    return Verdict(patch=({"op": "add", "path": path, "value": text},))
