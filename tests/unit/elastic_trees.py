"""Trees for properties, as validation would let them be."""

from hypothesis import strategies as st

from federation_quota.elastic.node import Node
from federation_quota.elastic.tree import Tree

Requests = dict[str, dict[str, int]]
AMOUNTS = st.integers(0, 60)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Tree, Requests]:
    """A tree of up to three levels as validation would let it be: min within max, mins below within the parent's."""
    resources = ["cpu", "memory"]
    nodes: list[Node] = []
    requests: Requests = {}

    def amounts(least: dict[str, int] | None = None) -> dict[str, int]:
        return {name: (least or {}).get(name, 0) + draw(AMOUNTS) for name in resources}

    def grow(parent: str, depth: int) -> dict[str, int]:
        promised = dict.fromkeys(resources, 0)
        for place in range(draw(st.integers(1, 4))):
            name = f"{parent}{'abcd'[place]}"
            is_parent = depth < 2 and draw(st.booleans())
            least = grow(name, depth + 1) if is_parent else {}
            least = amounts(least)
            most = {key: least[key] + draw(AMOUNTS) for key in resources if draw(st.booleans())}
            weight = amounts() if draw(st.booleans()) else {}
            lends, scales = draw(st.booleans()), draw(st.integers(0, 3)) > 0
            nodes.append(Node(name, parent, least, most, weight, lends, scales, is_parent))
            if not is_parent:
                requests[name] = amounts()
            for key in resources:
                promised[key] += least[key]
        return promised

    grow("", 0)
    total = {name: draw(st.integers(0, 500)) for name in resources}
    return Tree.of(draw(st.permutations(nodes)), total), requests
