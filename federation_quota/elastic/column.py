"""One resource in one tree: every node's demand and runtime, kept up to date a change at a time.

A change of demand climbs as far as it changes anything, and marks the parents whose children must be divided anew.
Dividing is put off until somebody asks: for one node only its ancestors are divided, for all of them only what is
marked and what follows from it.

Whatever the order of changes and questions, the numbers are those of a pass from scratch: a division depends on nothing
but its inputs, and is repeated whenever one of them has changed.
"""

from collections.abc import Iterable, Sequence
from math import gcd

from federation_quota.elastic.division import divide, scale
from federation_quota.elastic.shape import Shape


class Column:
    """The numbers of one resource, by the number of the node."""

    def __init__(
        self, shape: Shape, resource: str, total: int, *, scales_min: bool = True, keeps_used: bool = False
    ) -> None:
        nodes, count = shape.nodes, len(shape.nodes)
        self._shape = shape
        self._scales_min = scales_min
        self._keeps_used = keeps_used
        self.is_limited = [node.is_parent or node.names(resource) for node in nodes]
        """Whether a node's demand counts; a leaf's does not where it says nothing about the resource."""
        for number in shape.branches:
            self.is_limited[number] = True
        self.mins = [node.min.get(resource, 0) for node in nodes]
        self._maxs = [node.max.get(resource) for node in nodes]
        self._lends = [node.lends and not keeps_used for node in nodes]
        self._scaled = [node.scales_min for node in nodes]
        self._all_lend = [all(self._lends[children]) for children in shape.children]
        self._all_scale = [all(self._scaled[children]) for children in shape.children]
        self._min_sums = [sum(self.mins[children]) for children in shape.children]
        self._fixed_sums = [
            sum(
                least
                for least, is_scaled in zip(self.mins[children], self._scaled[children], strict=True)
                if not is_scaled
            )
            for children in shape.children
        ]
        weights = [node.weight_of(resource) for node in nodes]
        self._weights = [0 if weight is None else weight for weight in weights]
        self._weighs_all = [number for number, weight in enumerate(weights) if weight is None]
        self._lowest_terms = {parent: self._reduced_weights(parent) for parent in shape.branches}
        self._is_plain = {parent: self._are_plain(parent) for parent in shape.branches}
        self.own = [0] * count
        """What is asked for at the node itself."""
        self.below = [0] * count
        """What its children pass up."""
        self.asked = [0] * count
        """Its demand: both, and no less than its min where it does not lend."""
        self.wants = [0] * count
        """What of it is passed up: no more than its max."""
        self.allocated = [0] * count
        """What it uses, or what is guaranteed to its children."""
        self.guaranteed = list(self.mins)
        """What cannot be taken from it: its min, and what it uses where the tree keeps that."""
        self.runtimes = [0] * count
        self._noted = [0] * count  # the runtimes when somebody last took note of changes
        self._divided: list[int | None] = [None] * count  # what a node's children share, as last divided
        self._touched: set[int] = set()  # whose children were divided since changes were noted
        for number in range(count - 1, 0, -1):
            self.guaranteed[number] = max(self.allocated[number], self.mins[number])
            self.allocated[shape.parents[number]] += self.guaranteed[number]
        self.set_total(total)
        self.fill(self.own)

    def set_total(self, total: int) -> None:
        """There is so much of it."""
        total = max(total, 0)
        self.runtimes[0] = self._noted[0] = total
        weight = total or 1  # some, even of nothing: mins that are promised all the same are still divided
        stale: set[int] = set()
        for number in self._weighs_all:
            if self._weights[number] != weight:
                parent = self._shape.parents[number]
                self._weights[number] = weight
                stale.add(parent)
        for parent in stale:
            self._divided[parent] = None
            self._is_plain[parent] = self._are_plain(parent)
            self._lowest_terms[parent] = self._reduced_weights(parent)

    def fill(self, own: Sequence[int]) -> None:
        """Every node asks for that much by itself."""
        self.own = list(own)
        self.below = [0] * len(self.own)
        parents, below = self._shape.parents, self.below
        for number in range(len(parents) - 1, 0, -1):
            below[parents[number]] += self._demand(number)
        self._divided = [None] * len(parents)

    def ask(self, number: int, amount: int) -> None:
        """A node asks for so much by itself."""
        self.own[number] = amount
        parents, below, wants, runtimes = self._shape.parents, self.below, self.wants, self.runtimes
        while number:
            before = wants[number]
            want = self._demand(number)
            if want == before:
                return
            parent = parents[number]
            below[parent] += want - before
            # How much more somebody wants who got less than it wants, before and now, changes nothing for anybody.
            if runtimes[number] >= before or runtimes[number] >= want:
                self._divided[parent] = None
            number = parent

    def use(self, number: int, amount: int) -> None:
        """A node uses so much by itself; it matters only where a tree keeps what is used."""
        allocated, guaranteed = self.allocated, self.guaranteed
        allocated[number] = amount + sum(guaranteed[self._shape.children[number]])
        while number:
            grown = max(allocated[number], self.mins[number]) - guaranteed[number]
            if not grown:
                return
            guaranteed[number] += grown
            number = self._shape.parents[number]
            allocated[number] += grown
            self._divided[number] = None

    def settle(self, numbers: Iterable[int] | None = None) -> None:
        """Divide anew what must be: among the children of these nodes, parents first; by default of all."""
        runtimes, divided = self.runtimes, self._divided
        for number in self._shape.branches if numbers is None else numbers:
            if divided[number] != runtimes[number]:
                self._divide(number)

    def take_changes(self) -> set[int]:
        """The nodes whose runtime is another than when this was last asked."""
        changed: set[int] = set()
        for parent in self._touched:
            siblings = self._shape.children[parent]
            new, old = self.runtimes[siblings], self._noted[siblings]
            if new != old:
                first = self._shape.first_child(parent)
                changed.update(
                    first + place for place, pair in enumerate(zip(new, old, strict=True)) if pair[0] != pair[1]
                )
                self._noted[siblings] = new
        self._touched.clear()
        return changed

    def kept_min(self, number: int) -> int:
        """What of a node's min is kept, once its ancestors are settled."""
        parent = self._shape.parents[number]
        return self._kept_mins(parent)[number - self._shape.first_child(parent)]

    def _demand(self, number: int) -> int:
        """Work out what a node asks for; what it passes up."""
        demand = self.own[number] + self.below[number]
        if demand < self.mins[number] and not self._lends[number]:
            demand = self.mins[number]
        self.asked[number] = demand
        most = self._maxs[number]
        if most is not None and demand > most:
            demand = most
        self.wants[number] = demand
        return demand

    def _divide(self, parent: int) -> None:
        siblings = self._shape.children[parent]
        total = self.runtimes[parent]
        given = self.wants[siblings]
        # Enough for everybody, and nothing that keeps anybody from it, needs no arithmetic.
        if total < self.below[parent] or not self._is_plain[parent]:
            mins = self._kept_mins(parent)
            if self._keeps_used:
                mins = list(map(max, mins, self.guaranteed[siblings]))
            lends = None if self._all_lend[parent] else self._lends[siblings]
            given = divide(total, mins, given, self._lowest_terms[parent], lends)
        self.runtimes[siblings] = given
        self._divided[parent] = total
        self._touched.add(parent)

    def _kept_mins(self, parent: int) -> list[int]:
        siblings, total = self._shape.children[parent], self.runtimes[parent]
        mins, whole = self.mins[siblings], self._min_sums[parent]
        if not self._scales_min or whole <= total:
            return mins
        if self._all_scale[parent]:
            return scale(total, mins, whole)
        fixed = self._fixed_sums[parent]
        # Of nothing that scales, any part is nothing.
        return scale(max(total - fixed, 0), mins, whole - fixed or 1, self._scaled[siblings])

    def _reduced_weights(self, parent: int) -> list[int]:
        """The weights of siblings in lowest terms: bytes are large numbers, and only proportions count."""
        weights = self._weights[self._shape.children[parent]]
        divisor = gcd(*weights) or 1
        return [weight // divisor for weight in weights]

    def _are_plain(self, parent: int) -> bool:
        """Whether the children all end up with exactly what they want whenever there is enough for all of them."""
        children = self._shape.children[parent]
        weights, mins, maxs = self._weights[children], self.mins[children], self._maxs[children]
        return not self._keeps_used and all(
            weight > 0 and (most is None or least <= most)
            for weight, least, most in zip(weights, mins, maxs, strict=True)
        )
