"""The mirror of elastic quotas and trees: each kind is watched once, whoever needs it."""

import json
from typing import Any, cast

from federation_quota.elastic.quota import COMPOSITE, ELASTIC
from federation_quota.elastic.underway import Identity
from federation_quota.kube.client import Client
from federation_quota.kube.forest import ForestMirror, Ledgers
from federation_quota.kube.mirrors import QuotaMirror
from federation_quota.kube.quotas import COMPOSITE_ELASTIC_QUOTAS, ELASTIC_QUOTAS
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.resource import Resource
from tests.unit.forests import Nowhere


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
