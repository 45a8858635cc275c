from federation_quota import usage_report
from federation_quota.cli.usage_table import table
from tests.unit.test_usage_report import Cap, amounts, use

USES = [
    use("shop/web", "ann", "dev", "root.research.vision", {"vcore": "3", "memory": "4Gi"}),
    use("shop/db", "bob", "", "root.shop", {"vcore": "500m"}),
]
CAPS = {(): Cap(applications=10), ("research",): Cap(amounts({"vcore": "10", "nvidia.com/gpu": "2"}))}


def test_a_line_for_each_queue_with_what_is_used_of_what_is_allowed() -> None:
    told = table([usage_report.user(name, USES, CAPS) for name in ("ann", "bob")], "USER")
    assert told.splitlines() == [
        "USER   QUEUE                  APPLICATIONS   USED",
        "ann    root                   1/10           cpu: 3, memory: 4Gi, pods: 1",
        "ann    root.research          1              cpu: 3/10, memory: 4Gi, nvidia.com/gpu: 0/2, pods: 1",
        "ann    root.research.vision   1              cpu: 3, memory: 4Gi, pods: 1",
        "bob    root                   1/10           cpu: 500m, pods: 1",
        "bob    root.shop              1              cpu: 500m, pods: 1",
    ]


def test_groups_are_told_alike_and_nobody_is_nothing() -> None:
    assert table([usage_report.group("dev", USES, {})], "GROUP").startswith("GROUP   QUEUE")
    assert table([], "USER") == ""
