"""What a review that changes a binding must know of it beside what it costs: where a patch would go, and what is said.

Read in one pass over the bytes, with nothing built of what is not asked for.
"""

import msgspec

from federation_quota.kube.codec import CodecError


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Requirements(msgspec.Struct, rename="camel"):
    namespace: str = ""
    priority_class_name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    replica_requirements: _Requirements | None = None


class Outline(msgspec.Struct):
    """A binding, seen from afar."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)

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
        return requirements.priority_class_name if requirements and requirements.namespace else None


_OUTLINE = msgspec.json.Decoder(Outline)


def decode(body: msgspec.Raw) -> Outline:
    """The outline of a binding; CodecError where it has none."""
    try:
        return _OUTLINE.decode(body)
    except msgspec.MsgspecError as error:
        raise CodecError(f"not a ResourceBinding: {error}") from error
