"""`kubectl fedquota pending`: who waits, for what, and why."""

from dataclasses import replace

from federation_quota import waiting
from federation_quota.cli.pending import Row, rows, table
from federation_quota.pending import Pending
from federation_quota.resources import Resources
from federation_quota.stamp import HELD_LABEL, PENDING_ANNOTATION
from tests.unit.waiters import waiter

NOTE = Pending(
    "budget", "no money", "2026-01-01T00:00:09Z", "2026-01-01T00:00:05Z", 60, Resources.parse({"cpu": "1"}), 7
)


def binding(name: str, *, note: Pending | None = None, held: bool = False) -> dict[str, object]:
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "creationTimestamp": "2026-01-01T00:00:01Z",
            "labels": {HELD_LABEL: "true"} if held else None,
            "annotations": {PENDING_ANNOTATION: note.encode()} if note else None,
        }
    }


def test_everybody_who_waits_is_there_once_with_the_most_that_is_known() -> None:
    listed = [waiter("web", 3), waiter("api", 2)]
    quota = {"metadata": {"namespace": "shop", "name": "team"}, "status": {"waiting": waiting.write(listed)}}
    found = rows(
        [
            binding("runs"),
            binding("held", held=True),
            binding("web-deployment", note=NOTE, held=True),
            binding("api-deployment", held=True),
        ],
        [quota, {"metadata": {"namespace": "shop", "name": "new"}}],
    )
    assert [one[1:3] for one in found] == [
        ("api-deployment", "quota team"),
        ("held", "a quota"),
        ("web-deployment", "validator budget"),
    ]
    assert found[2] == Row("shop", "web-deployment", "validator budget", "2026-01-01T00:00:05Z", "no money")


def test_columns_stand_below_each_other() -> None:
    lines = table(rows([binding("w", note=NOTE), binding("a-long-name", note=NOTE)], [])).splitlines()
    assert lines[0].split() == ["NAMESPACE", "BINDING", "WAITS", "FOR", "SINCE", "WHY"]
    assert len({line.index("validator") for line in lines[1:]} | {lines[0].index("WAITS")}) == 1


def test_who_waits_for_the_limit_of_a_user_or_group_is_there_too() -> None:
    listed = [replace(waiter("web", 3), binding="shop/web-deployment", message="exceeded")]
    spec = {"tree": "lab", "kind": "User", "name": "ann"}
    found = rows([], [], [{"spec": spec, "status": {"waiting": waiting.write(listed)}}, {"spec": spec}])
    assert found == [Row("shop", "web-deployment", "limit of user ann", "2026-01-01T00:00:00Z", "exceeded")]
