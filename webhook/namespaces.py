"""Reviews of namespaces: a new or relabelled one falls under one quota, and stays in the system group while it is busy.

Quotas take namespaces by their labels, so whoever labels one moves it. What nobody reviewed, because no replica was
there to be asked, is decided all the same (`elastic.association`): the closest quota has the namespace, of several the
first by name. So this stands in nobody's way who could not be answered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from federation_quota.elastic import topology
from federation_quota.elastic.forest import Forest
from federation_quota.elastic.topology import Busy
from federation_quota.field_error import summarise
from federation_quota.kube import codec
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.resource_name import COUNT
from webhook.deliberation import Deliberation
from webhook.review import ALLOWED, Verdict

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NamespaceReview:
    """Judges the labels of namespaces."""

    deliberation: Deliberation
    is_busy: Busy
    """Whether anything runs in a namespace that is charged to no quota."""

    async def __call__(self, request: codec.AdmissionRequest, deadline: float) -> Verdict:
        """Judge a CREATE, or an UPDATE of the labels."""
        if not self.deliberation.is_ready:
            return ALLOWED
        old = None if request.operation == "CREATE" else _labels(request.old_object)
        look = partial(self._look, request.name, _labels(request.object), old)
        return await self.deliberation.weigh(look, deadline)

    def _look(self, name: str, new: Labels, old: Labels | None, forest: Forest) -> Verdict:
        errors = topology.check_namespace(forest, name, new, old, self.is_busy)
        if not errors:
            return ALLOWED
        return Verdict(
            is_allowed=False,
            code=422,
            reason="Invalid",
            message=f'Namespace "{name}" is invalid: {summarise(errors)}',
            causes=tuple(one.to_cause() for one in errors),
        )


def runs_uncharged(mirror: BindingMirror, namespace: str) -> bool:
    """Whether anything that could be shared runs in a namespace, and is charged to no elastic quota."""
    return any(
        key.namespace == namespace and not one.stamp.leaf and any(not name.startswith(COUNT) for name in one.assigned)
        for key, one in mirror.bindings.items()
    )


def _labels(body: codec.Encoded) -> Labels:
    document = codec.decode_object(body)
    metadata = document.get("metadata") if isinstance(document, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    found = labels if isinstance(labels, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, str)}
