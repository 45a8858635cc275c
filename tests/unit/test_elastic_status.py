from federation_quota.api.elastic import SharingStatus
from federation_quota.elastic import status
from federation_quota.elastic.ask import Ask
from federation_quota.elastic.node import Node
from federation_quota.elastic.runtime import Runtimes
from federation_quota.elastic.status import Figures
from federation_quota.elastic.tree import Tree
from federation_quota.resources import Resources

GI = 2**30
TREE = Tree.of(
    [Node("A", min={"cpu": 20_000, "memory": 8 * GI}), Node("B", min={"cpu": 80_000, "memory": GI})],
    {"cpu": 100_000, "memory": 9 * GI},
)


def test_a_status_tells_who_borrows_and_who_lends() -> None:
    runtimes = Runtimes(TREE, {"A": {"cpu": 50_000, "memory": 4 * GI}, "B": {"cpu": 70_000, "memory": GI}})
    asks = (Ask("team/web", Resources.parse({"cpu": 4}), "2026-01-01T00:00:00Z"),)
    figures = Figures({"cpu": 30_000, "memory": GI}, {"cpu": 25_000}, held=2, asks=asks)
    written = status.write(runtimes.standing("A"), runtimes.runtime("A"), figures, 3)
    assert written["summary"] == "cpu: 30/30, memory: 1Gi/4Gi"
    assert written["borrowing"] == "cpu: 10"
    assert written["lending"] == "memory: 4Gi"
    assert written["borrowed"] == {"cpu": "10"}
    assert written["request"] == {"cpu": "50", "memory": "4Gi"}
    assert written["running"] == {"cpu": "25", "memory": "0"}
    assert status.published(written) == runtimes.runtime("A")
    SharingStatus.model_validate(written)


def test_what_was_never_seen_is_not_said_to_be_nothing() -> None:
    runtimes = Runtimes(TREE, {})
    written = status.write(runtimes.standing("B"), runtimes.runtime("B"), Figures({}), 1)
    assert "running" not in written
    assert written["borrowing"] == ""


def test_a_runtime_that_cannot_be_read_is_not_published() -> None:
    assert status.published({"runtime": {"cpu": "x", "memory": "5"}}) == {"memory": 5}
    assert status.published({}) == {}
