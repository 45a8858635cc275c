"""The mirror of elastic quotas and trees: each kind is watched once, whoever needs it."""

import json
from typing import Any, cast

from federation_quota.elastic.quota import COMPOSITE, ELASTIC
from federation_quota.elastic.underway import Identity
from federation_quota.kube.client import Client
from federation_quota.kube.forest import ForestMirror, Ledgers
from federation_quota.kube.mirrors import QuotaMirror
from federation_quota.kube.quotas import COMPOSITE_ELASTIC_QUOTAS, ELASTIC_QUOTAS, QUOTA_TREES
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.resource import Resource
from federation_quota.limits.scheme import NO_LIMITS, Schemes
from tests.unit.forests import Nowhere

ANNS = {"users": ["ann"], "maxResources": {"cpu": 4}}


class Both:
    """A mirror whose quotas are also somebody's accounts."""

    def __init__(self) -> None:
        self.learned: dict[str, str] = {}
        self.rewound: list[Resource] = []
        self.mirror = ForestMirror(
            cast(Client, Nowhere()), ledgers=Ledgers(lambda _resource: self._ledger(), self.rewound.append)
        )

    def _ledger(self) -> QuotaMirror:
        return QuotaMirror(
            lambda account: self.learned.update({account.name: account.version}),
            self._forget,
        )

    def _forget(self, _place: str, name: str, _version: int) -> None:
        del self.learned[name]

    def of(self, resource: Resource) -> Reflector[Any]:
        (found,) = [one for one in self.mirror.reflectors if one.resource == resource]
        return found


def quota(name: str, namespace: str = "", version: int = 7) -> bytes:
    metadata = {"name": name, "uid": f"u-{name}", "generation": 3, "resourceVersion": str(version)}
    place = {"namespace": namespace} if namespace else {}
    return json.dumps({"metadata": metadata | place, "spec": {"min": {"cpu": 1}}}).encode()


def test_one_watch_of_each_kind_feeds_the_forest_and_the_books() -> None:
    both = Both()
    mirror = both.mirror
    resources = [one.resource for one in mirror.reflectors]
    assert len(resources) == len(set(resources))
    elastic, composite = both.of(ELASTIC_QUOTAS), both.of(COMPOSITE_ELASTIC_QUOTAS)
    assert mirror.quotas == [elastic, composite]

    elastic._sink.replace([elastic._decode(quota("q", "team"))], 7)
    composite._sink.replace([composite._decode(quota("dept"))], 8)
    assert {name: one.kind for name, one in mirror.forest.quotas.items()} == {"team/q": ELASTIC, "dept": COMPOSITE}
    assert mirror.elastic.items["team/q"].identity == Identity("u-q", 3)
    assert both.learned == {"team/q": "7", "dept": "7"}, "a list of one kind says nothing of the other"

    elastic._sink.upsert(elastic._decode(quota("q", "team", version=9)))
    composite._sink.delete(composite._decode(quota("dept", version=10)))
    assert set(mirror.forest.quotas) == {"team/q"}
    assert both.learned == {"team/q": "9"}


def test_a_store_that_went_back_is_told_of_by_kind() -> None:
    both = Both()
    on_rewind = both.of(ELASTIC_QUOTAS)._on_rewind
    assert on_rewind is not None
    on_rewind(9, 1)
    assert both.rewound == [ELASTIC_QUOTAS]


def test_limits_are_told_of_as_often_as_they_change_and_no_more() -> None:
    told: list[Schemes] = []
    mirror = ForestMirror(cast(Client, Nowhere()), on_limits=told.append)
    elastic, composite, trees = (
        next(one for one in mirror.reflectors if one.resource == resource)
        for resource in (ELASTIC_QUOTAS, COMPOSITE_ELASTIC_QUOTAS, QUOTA_TREES)
    )
    assert mirror.roots is trees
    dept = {"metadata": {"name": "dept", "uid": "u", "generation": 1}, "spec": {"limits": [ANNS]}}
    elastic._sink.replace([elastic._decode(quota("q", "team"))], 7)
    assert told == [], "nothing is limited"
    composite._sink.replace([composite._decode(json.dumps(dept).encode())], 8)
    assert (set(told[-1].by_tree), set(told[-1].quotas)) == ({"default"}, {"team/q", "dept"})
    elastic._sink.upsert(elastic._decode(quota("q", "team", version=9)))
    assert len(told) == 1, "of its status nothing of this depends"
    elastic._sink.upsert(elastic._decode(quota("other", "team", version=10)))
    assert (len(told), told[-1].knows("team/other")) == (2, True)
    lab = {"metadata": {"name": "lab", "uid": "t", "generation": 4}, "spec": {"total": {"cpu": 1}, "limits": [ANNS]}}
    trees._sink.replace([trees._decode(json.dumps(lab).encode())], 11)
    assert told[-1].by_tree.keys() == {"default", "lab"}
    assert mirror.identity("lab", "") == Identity("t", 4)
    assert mirror.identity("default", "dept") == Identity("u", 1)
    assert mirror.identity("default", "") is None
    trees._sink.delete(trees._decode(json.dumps(lab).encode()))
    composite._sink.delete(composite._decode(json.dumps(dept).encode()))
    assert told[-1] == NO_LIMITS
