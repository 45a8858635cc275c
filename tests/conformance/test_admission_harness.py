"""The harness of the admission cases can fail: on wrong numbers, on wrong words, and on shapes it does not know."""

import copy
from typing import Any

import pytest

from tests.conformance.admission import UnknownShapeError
from tests.conformance.admission_proof import prove
from tests.conformance.vectors import Case


def changed(case: Case, **changes: Any) -> Case:  # noqa: ANN401 # what a case says has any form
    """A case with some of its parts replaced; `a__b` is the part `b` of `a`."""
    result = copy.deepcopy(case)
    for path, value in changes.items():
        *parents, last = path.split("__")
        node: Any = result
        for parent in parents:
            node = node[int(parent) if parent.isdigit() else parent]
        node[int(last) if last.isdigit() else last] = value
    return result


POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}
QUOTA = {"name": "quota", "hard": {"cpu": "3"}, "used": {"cpu": "2"}}
FITS: Case = {
    "kind": "single",
    "quotas": [QUOTA],
    "request": {"operation": "CREATE", "name": "p", "object": POD, "namespace": "test", "resource": "pods"},
    "allowed": True,
    "error": None,
    "statusWrites": {"quota": {"cpu": "3"}},
}
NO_OBJECT = {key: value for key, value in FITS["request"].items() if key != "object"}
TEXT = 'pods "p" is forbidden: exceeded quota: quota, requested: cpu=1, used: cpu=3, limited: cpu=3'
EXCEEDS: Case = {
    **FITS,
    "quotas": [{**QUOTA, "used": {"cpu": "3"}}],
    "allowed": False,
    "error": TEXT,
    "statusWrites": {},
}
BATCH: Case = {
    "kind": "batch",
    "quotas": [QUOTA],
    "waiters": [{"name": "a", "usage": {"cpu": "1"}}, {"name": "p", "usage": {"cpu": "1"}}],
    "statusWrites": [{"quota": "quota", "used": {"cpu": "3"}, "outcome": "ok"}],
    "results": [None, TEXT],
}
SECOND = {"name": "a", "hard": {"cpu": "2"}, "used": {"cpu": "2"}}
SCOPED = {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}}
RIGHT: dict[str, Case] = {
    "fits": FITS,
    "with a remark": {**FITS, "remark": "whatever"},
    "exceeds": EXCEEDS,
    "a batch": BATCH,
    "used in another format": changed(
        EXCEEDS,
        quotas__0={"name": "quota", "hard": {"memory": "1Gi"}, "used": {"memory": "1G"}},
        request__object__spec__containers__0={"resources": {"requests": {"memory": "1Gi"}}},
        error=TEXT.replace("cpu=1,", "memory=1Gi,").replace("cpu=3,", "memory=1G,").replace("cpu=3", "memory=1Gi"),
    ),
    "another quota refuses first": {**EXCEEDS, "quotas": [*EXCEEDS["quotas"], SECOND]},
    "sums that disagree": {**EXCEEDS, "quotas": [{**SECOND, "hard": {"cpu": "9"}}, *EXCEEDS["quotas"]]},
    "sums that disagree, and all fits": {
        **FITS,
        "quotas": [{**SECOND, "hard": {"cpu": "9"}, "used": {"cpu": "7"}}, QUOTA],
        "statusWrites": {"a": {"cpu": "8"}, "quota": {"cpu": "3"}},
    },
    "a quota within another": {
        **EXCEEDS,
        "quotas": [*EXCEEDS["quotas"], {"name": "some", "hard": {"cpu": "9"}, "used": {"cpu": "1"}, **SCOPED}],
    },
    "a scope that is refused": {
        **FITS,
        "quotas": [{**SECOND, "scopes": ["BestEffort"]}, QUOTA],
    },
    "a negative amount": {
        **EXCEEDS,
        "request": {**NO_OBJECT, "usage": {"cpu": "-1"}},
        "error": 'pods "p" is forbidden: quota usage is negative for resource(s): cpu',
    },
    "limits instead of requests": changed(
        FITS, request__object__spec__containers__0={"resources": {"limits": {"cpu": "1"}}}, statusWrites={}
    ),
    "needs a cover": {
        **FITS,
        "quotas": [],
        "statusWrites": {},
        "allowed": False,
        "error": "insufficient quota to consume: cpu",
    },
    "somebody admitted after a denial": {
        **BATCH,
        "waiters": [
            {"name": "p", "usage": {"cpu": "2"}},
            {"name": "a", "usage": {"cpu": "1"}},
        ],
        "results": [TEXT.replace("requested: cpu=1, used: cpu=3", "requested: cpu=2, used: cpu=2"), None],
    },
    "less used after a conflict": {
        **BATCH,
        "freshOnRetry": [{**QUOTA, "used": {"cpu": "1"}}],
        "statusWrites": [
            {"quota": "quota", "used": {"cpu": "3"}, "outcome": "conflict"},
            {"quota": "quota", "used": {"cpu": "2"}, "outcome": "ok"},
            {"quota": "quota", "used": {"cpu": "3"}, "outcome": "ok"},
        ],
        "results": [None, None],
    },
    "gone after a conflict": {
        **BATCH,
        "freshOnRetry": [],
        "statusWrites": [{"quota": "quota", "used": {"cpu": "3"}, "outcome": "conflict"}],
        "results": [None, None],
    },
}
WRONG: dict[str, Case] = {
    "a denial of what fits": {**FITS, "allowed": False, "error": TEXT},
    "a use nobody comes to": changed(FITS, statusWrites__quota={"cpu": "4"}),
    "no use although it is allowed": {**FITS, "statusWrites": {}},
    "an admission of what exceeds": {**EXCEEDS, "allowed": True, "error": None},
    "other words": {**EXCEEDS, "error": TEXT.replace("limited: cpu=3", "limited: cpu=4")},
    "the name of another": {**EXCEEDS, "error": TEXT.replace('"p"', '"q"')},
    "another quota's denial": {**EXCEEDS, "error": TEXT.replace("quota: quota", "quota: other")},
    "another amount in another format": changed(
        RIGHT["used in another format"], error=RIGHT["used in another format"]["error"].replace("=1G,", "=2G,")
    ),
    "a batch that is denied too little": {**BATCH, "results": [None, None]},
    "a batch that uses too much": changed(
        BATCH, statusWrites=[{"quota": "quota", "used": {"cpu": "4"}, "outcome": "ok"}]
    ),
    "a kind nobody knows": {**FITS, "kind": "triple"},
    "an operation nobody knows": changed(FITS, request__operation="CONNECT"),
    "an error nobody knows": {**EXCEEDS, "error": 'pods "p" is forbidden: because'},
    "a request with a part nobody knows": changed(FITS, request__userInfo={}),
    "a quota with a part nobody knows": changed(FITS, quotas__0={**QUOTA, "limitedResources": []}),
    "a case with a part nobody knows": {**FITS, "limitedResources": [{"resource": "pods"}]},
    "a waiter with a part nobody knows": changed(BATCH, waiters__0={"name": "a", "usage": {}, "object": POD}),
    "an outcome nobody knows": changed(BATCH, statusWrites=[{"quota": "quota", "used": {}, "outcome": "lost"}]),
    "no result": {**BATCH, "results": [None]},
    "allowed with an error": {**FITS, "error": TEXT},
    "neither object nor usage": {**FITS, "request": NO_OBJECT},
    "a wish nobody knows": {**BATCH, "kubernetesBug": True, "desired": "peace"},
}


@pytest.mark.parametrize("case", RIGHT.values(), ids=list(RIGHT))
def test_other_cases_of_the_same_shapes_pass(case: Case) -> None:
    prove(case)


@pytest.mark.parametrize("case", WRONG.values(), ids=list(WRONG))
def test_every_wrong_case_fails(case: Case) -> None:
    with pytest.raises((AssertionError, UnknownShapeError)):
        prove(case)
