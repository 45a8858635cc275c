"""What a binding says of itself: its class, where Karmada wrote it; and whether a label is there."""

import json

import msgspec
import pytest

from federation_quota.kube import codec, outline


def seen(**spec: object) -> outline.Outline:
    return outline.decode(msgspec.Raw(json.dumps({"metadata": {"labels": {"a": ""}}, "spec": spec}).encode()))


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
