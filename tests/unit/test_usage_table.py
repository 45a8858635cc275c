from federation_quota.cli.usage_table import table
from federation_quota.limits.hierarchy import ROOT
from tests.unit.test_limits_report import claim, groups, limit, tree, users

SCHEME = tree(
    {"research": ROOT, "vision": "research", "shop": ROOT},
    {
        ROOT: (limit(applications=10, users=("*",)),),
        "research": (limit({"vcore": "10", "nvidia.com/gpu": "2"}, users=("ann",), groups=("dev",)),),
    },
)
CLAIMS = {
    "shop/web": claim("ann", ("dev",), "vision", {"vcore": "3", "memory": "4Gi"}),
    "shop/db": claim("bob", (), "shop", {"vcore": "500m"}),
}


def test_a_line_for_each_queue_with_what_is_used_of_what_is_allowed() -> None:
    assert table(users(SCHEME, CLAIMS), "USER").splitlines() == [
        "USER   QUEUE                  APPLICATIONS   USED",
        "ann    root                   1/10           cpu: 3, memory: 4Gi, pods: 1",
        "ann    root.research          1              cpu: 3/10, memory: 4Gi, nvidia.com/gpu: 0/2, pods: 1",
        "ann    root.research.vision   1              cpu: 3, memory: 4Gi, pods: 1",
        "bob    root                   1/10           cpu: 500m, pods: 1",
        "bob    root.shop              1              cpu: 500m, pods: 1",
    ]


def test_groups_are_told_alike_and_nobody_is_nothing() -> None:
    assert table(groups(SCHEME, CLAIMS), "GROUP").startswith("GROUP   QUEUE")
    assert table([], "USER") == ""
