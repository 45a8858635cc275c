"""What a binding says of itself: its class, where Karmada wrote it; its stamp; and whether a label is there."""

import json

import msgspec
import pytest

from federation_quota.kube import codec, outline
from federation_quota.stamp import NO_STAMP, STAMP_ANNOTATION, Stamp

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}
SAID = {"namespace": "shop"}


def body(annotations: dict[str, str] | None = None, **spec: object) -> msgspec.Raw:
    metadata = {"name": "web", "labels": {"a": ""}, "annotations": annotations}
    return msgspec.Raw(json.dumps({"metadata": metadata, "spec": {"resource": DEPLOYMENT, **spec}}).encode())


def seen(annotations: dict[str, str] | None = None, **spec: object) -> outline.Outline:
    return outline.decode(body(annotations, **spec))


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        (None, None),
        ({"resourceRequest": {"cpu": "1"}}, None),
        ({"priorityClassName": "gold"}, None),  # without the namespace nobody looked for it as Karmada does
        ({"namespace": "shop"}, ""),
        ({"namespace": "shop", "priorityClassName": "gold"}, "gold"),
    ],
)
def test_a_class_is_taken_only_where_the_binding_shows_that_it_was_looked_for(
    requirements: dict[str, object] | None, expected: str | None
) -> None:
    assert seen(replicaRequirements=requirements).priority_class == expected


def test_labels_count_whatever_their_value_and_nonsense_is_refused() -> None:
    assert seen().is_labelled("a")
    assert not seen().is_labelled("b")
    with pytest.raises(codec.CodecError):
        outline.decode(msgspec.Raw(b'{"metadata": 3}'))


@pytest.mark.parametrize(
    ("annotations", "spec", "expected"),
    [
        (None, {"replicaRequirements": SAID}, Stamp(resource="deployments")),
        (None, {"replicaRequirements": {**SAID, "priorityClassName": None}}, Stamp(resource="deployments")),
        # What the class is worth is not in the binding, and what Karmada did not look for is not known.
        (None, {"replicaRequirements": {**SAID, "priorityClassName": "gold"}}, NO_STAMP),
        (None, {"replicaRequirements": {}}, NO_STAMP),
        (None, {}, NO_STAMP),
        # How a kind of somebody's own is called in the plural, only the API server knows.
        (None, {"replicaRequirements": SAID, "resource": {**DEPLOYMENT, "apiVersion": "x.io/v1"}}, NO_STAMP),
        ({STAMP_ANNOTATION: '{"class":"gold"}'}, {"replicaRequirements": SAID}, Stamp("gold")),
    ],
)
def test_a_binding_that_says_all_that_a_stamp_would_needs_none(
    annotations: dict[str, str] | None, spec: dict[str, object], expected: Stamp
) -> None:
    assert seen(annotations, **spec).stamp == expected
    assert codec.decode_binding(body(annotations, **spec)).stamp == expected
