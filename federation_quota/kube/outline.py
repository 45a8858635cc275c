"""What a review that changes a binding must know of it beside what it costs: where a patch would go, what is stamped on
it, and what it says of itself.

Read in one pass over the bytes, with nothing built of what is not asked for.
"""

import msgspec

from federation_quota import stamp
from federation_quota.binding import ObjectKey, TemplateRef
from federation_quota.kube import wire
from federation_quota.kube.codec import CodecError, template_ref
from federation_quota.stamp import STAMP_ANNOTATION, Stamp


class _Metadata(wire.Shape):
    name: str = ""
    namespace: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Requirements(wire.Shape):
    namespace: str | None = None
    priority_class_name: str | None = None


class _Spec(wire.Shape):
    resource: wire.Reference
    replica_requirements: _Requirements | None = None
    clusters: msgspec.Raw = msgspec.Raw(b"null")


class Outline(wire.Shape):
    """A binding, seen from afar."""

    metadata: _Metadata
    spec: _Spec

    @property
    def key(self) -> ObjectKey:
        """Its name."""
        return ObjectKey(self.metadata.namespace, self.metadata.name)

    @property
    def is_deleting(self) -> bool:
        """Whether it only waits for its finalizers."""
        return self.metadata.deletion_timestamp is not None

    @property
    def has_clusters(self) -> bool:
        """Whether it was given any."""
        return bytes(self.spec.clusters) not in (b"null", b"[]")

    @property
    def template(self) -> TemplateRef:
        """What it propagates."""
        return template_ref(self.spec.resource)

    @property
    def stamp(self) -> Stamp:
        """What is stamped on it, or what it says itself, as `codec.decode_binding` has it."""
        text = (self.metadata.annotations or {}).get(STAMP_ANNOTATION)
        if text is None and self.priority_class == "":
            return stamp.implied(self.spec.resource.api_version, self.spec.resource.kind)
        return stamp.decode(text)

    def is_labelled(self, label: str) -> bool:
        """Whether it has that label, with whatever value."""
        return label in (self.metadata.labels or ())

    @property
    def priority_class(self) -> str | None:
        """The priority class of its pods, empty for none; None where the binding does not say.

        Karmada writes it where its gate ResourceQuotaEstimate is on, and then writes the namespace, too, so that a
        class that is not there can be told from one that was not looked for.
        """
        requirements = self.spec.replica_requirements
        return (requirements.priority_class_name or "") if requirements and requirements.namespace else None


_OUTLINE = msgspec.json.Decoder(Outline)


def decode(body: msgspec.Raw) -> Outline:
    """The outline of a binding; CodecError where it has none."""
    try:
        return _OUTLINE.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(f"not a ResourceBinding: {error}") from error
