import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.stamp import NO_STAMP, Owner, Stamp, decode

texts = st.text(max_size=20)
stamps = st.builds(
    Stamp,
    priority_class=texts,
    priority=st.integers(-(2**31), 2**31 - 1),
    resource=texts,
    owner=st.none() | st.builds(Owner, user=texts, groups=st.lists(texts, max_size=60).map(tuple)),
    leaf=texts,
)


@given(stamps)
def test_what_was_written_is_read_again(stamp: Stamp) -> None:
    assert decode(stamp.encode()) == stamp


def test_the_text_is_compact_and_leaves_out_what_is_not_there() -> None:
    assert Stamp(resource="deployments").encode() == '{"class":"","priority":0,"resource":"deployments"}'
    full = Stamp("high", 1000, "jobs", Owner("ann", ("dev", "ops")), "team-a")
    assert json.loads(full.encode()) == {
        "class": "high",
        "priority": 1000,
        "resource": "jobs",
        "owner": {"user": "ann", "groups": ["dev", "ops"]},
        "leaf": "team-a",
    }


def test_no_annotation_is_no_stamp_and_no_fault() -> None:
    assert decode(None) is NO_STAMP
    assert not NO_STAMP.fault


def test_fields_of_a_later_version_are_left_out() -> None:
    assert decode('{"class":"high","colour":"red"}') == Stamp(priority_class="high")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '"high"',
        '{"class":1}',
        '{"class":null}',
        '{"priority":"1"}',
        '{"priority":1.5}',
        '{"priority":true}',
        '{"priority":2147483648}',
        '{"priority":' + "9" * 5000 + "}",
        '{"resource":["deployments"]}',
        '{"leaf":{}}',
        '{"owner":"ann"}',
        '{"owner":{}}',
        '{"owner":{"user":"ann","groups":"dev"}}',
        '{"owner":{"user":"ann","groups":[1]}}',
        "[" * 100_000,
        '{"class":"high","owner":' + "[" * 100_000,
    ],
)
def test_what_is_no_stamp_says_so_and_gives_nothing_away(text: str) -> None:
    stamp = decode(text)
    assert stamp.fault.startswith("the stamp cannot be read: ")
    assert stamp == Stamp(fault=stamp.fault)


def test_a_stamp_that_could_not_be_read_is_never_written() -> None:
    with pytest.raises(ValueError, match="not written again"):
        decode("{").encode()


def test_equal_texts_share_one_stamp() -> None:
    text = Stamp("high", 1, "jobs").encode()
    assert decode(text) is decode("".join(list(text)))
