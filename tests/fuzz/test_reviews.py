"""Whatever is sent to a hook: an answer that an API server understands, or one clear line why there is none."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.budget import examples
from tests.fuzz.hostile import ANY_JSON, encode, paths, put, twisted
from tests.fuzz.reviews import REVIEWS, review
from tests.fuzz.world import PATHS, Answer, world

# What a hook says of a review that it does not let through. 500 is a mistake of ours.
REFUSALS = {400, 403, 409, 422, 429}


def checked(path: str, body: bytes, binding: str = "") -> Answer:
    """The answer, after seeing that it is one."""
    answer = world().ask(path, body, binding)
    failures = [line for line in answer.log if line["event"] in ("review.failed", "account.failed")]
    assert not failures, failures
    assert not answer.refused_writes, answer.refused_writes[0]
    if answer.status == 400:
        assert answer.body.startswith(b"not an AdmissionReview: ")
        assert len(answer.body) < 1000
        assert b"\n" not in answer.body
        return answer
    assert answer.status == 200, (answer.status, answer.body[:200])
    said = json.loads(answer.body)
    assert (said["kind"], said["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    assert answer.response["uid"] == _uid(body)
    if not answer.response["allowed"]:
        assert answer.response["status"]["code"] in REFUSALS
        assert answer.response["status"]["message"]
    if "patch" in answer.response:
        assert answer.response["allowed"]
        assert all(one["op"] in ("add", "remove") for one in answer.patch)
    return answer


def _uid(body: bytes) -> str:
    class Request(msgspec.Struct):
        uid: str

    class Review(msgspec.Struct):
        request: Request

    return msgspec.json.decode(body, type=Review).request.uid


@examples(15)
@given(st.sampled_from(PATHS), st.binary(max_size=300))
def test_any_bytes(path: str, body: bytes) -> None:
    assert checked(path, body).status == 400


@examples(15)
@given(st.sampled_from(PATHS), ANY_JSON)
def test_any_json(path: str, value: Any) -> None:  # noqa: ANN401
    for place in ((), ("request",), ("request", "object"), ("request", "oldObject")):
        checked(path, encode(put(REVIEWS[path][-1], place, value)))


@examples(60)
@given(st.data())
def test_reviews_with_something_wrong(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(PATHS))
    checked(path, encode(data.draw(twisted(REVIEWS[path]))))


@examples(40)
@given(st.data())
def test_objects_with_something_wrong(data: st.DataObject) -> None:
    """The envelope is as it should be: what is wrong is in the objects, where the hooks look."""
    path = data.draw(st.sampled_from(PATHS))
    found = data.draw(st.sampled_from(REVIEWS[path]))
    request = found["request"]
    olds = [request["oldObject"]] if request["oldObject"] else [None]
    document = put(found, ("request", "object"), data.draw(twisted([request["object"]])))
    checked(path, encode(put(document, ("request", "oldObject"), data.draw(twisted(olds, most=1)))))


def test_every_review_is_answered_as_it_is() -> None:
    for path, found in REVIEWS.items():
        for one in found:
            assert checked(path, encode(one)).status == 200, path


def test_null_in_any_place() -> None:
    for path, found in REVIEWS.items():
        for place in paths(found[0]):
            checked(path, encode(put(found[0], place, None)))


def test_an_object_of_another_kind() -> None:
    requests = [one["request"] for found in REVIEWS.values() for one in found]
    bodies = {encode(review("x", "y", one["object"], one["oldObject"])) for one in requests}
    for path in PATHS:
        for body in bodies:
            checked(path, body)


def test_neither_metadata_nor_spec_is_a_map() -> None:
    for path, found in REVIEWS.items():
        for one in found:
            if not one["request"]["object"]:
                continue
            bare = put(one, ("request", "object", "metadata"), "true")
            checked(path, encode(put(bare, ("request", "object", "spec"), ["NaN"])))
