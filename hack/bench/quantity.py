"""How fast quantities are read, printed and added, against what one would otherwise use.

- A text read before: a dictionary look-up of the same text, called the same way, as a method bound to the dictionary.
  Nothing that remembers can be faster; the bar leaves room for noise. The second row wraps that look-up in a function,
  as a cache in front of a parser would be.
- A text never read before: the official client's `parse_quantity`, on a mix of what stands in pod specs. Two rows
  without a bar show what the mix hides: plain integers, and the signs and exponents that pods do not use. There the
  client makes one Decimal and is done, while ours works out the format and remembers the text for the next time.
- Printing and adding have no bar: they are here so that a change that makes them slower is seen.
"""

import random
from collections.abc import Callable, Sequence
from decimal import Decimal

from kubernetes.utils import quantity as client

from bench.measure import Effort, Findings, compare
from federation_quota.quantity import Quantity, parse

# The share of each shape among new texts, out of 100.
_SHAPES: tuple[tuple[int, Callable[[int], str]], ...] = (
    (30, lambda number: f"{number}m"),
    (30, lambda number: f"{number}Mi"),
    (15, lambda number: f"{number}Gi"),
    (15, lambda number: f"{number}"),
    (4, lambda number: f"{number // 10}.{number % 10}"),
    (3, lambda number: f"{number // 10}.{number % 10}Gi"),
    (3, lambda number: f"{number}M"),
)
_FAMILIAR = ("100m", "250m", "500m", "1500m", "10", "64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "1.5Gi", "10G")


def run(effort: Effort) -> Findings:
    """Measure reading again, reading anew, printing and adding."""
    known: dict[str, Quantity] = {text: parse(text) for text in _FAMILIAR}
    amounts = list(known.values())
    parse_client: Callable[[str], Decimal] = client.parse_quantity
    decimals = [parse_client(text) for text in _FAMILIAR]

    def look_up(text: str) -> Quantity:
        return known[text]

    def print_ours(index: int) -> str:
        return str(amounts[index])

    def print_decimal(index: int) -> str:
        return client.format_quantity(decimals[index], "Mi")

    def add_ours(index: int) -> object:
        return amounts[index] + amounts[0]

    def add_decimal(index: int) -> object:
        return decimals[index] + decimals[0]

    parses, formats = "kubernetes.utils parse_quantity", "kubernetes.utils format_quantity"
    return Findings(
        [
            compare("read again", parse, "dict look-up", known.__getitem__, _familiar_texts, bar=1.2, effort=effort),
            compare(
                "read again", parse, "dict look-up in a function", look_up, _familiar_texts, bar=1.2, effort=effort
            ),
            compare("read new text", parse, parses, parse_client, _new_texts, bar=1.0, effort=effort),
            compare("read new plain integer", parse, parses, parse_client, _new_integers, bar=None, effort=effort),
            compare("read new sign or exponent", parse, parses, parse_client, _new_oddities, bar=None, effort=effort),
            compare("print", print_ours, formats, print_decimal, _indices, bar=None, effort=effort),
            compare("add", add_ours, "decimal.Decimal", add_decimal, _indices, bar=None, effort=effort),
        ]
    )


def _familiar_texts(_round_number: int, count: int) -> Sequence[str]:
    # New strings each time, as a JSON decoder hands them over: their hash has yet to be computed.
    return ["".join(list(_FAMILIAR[index])) for index in _indices(_round_number, count)]


def _new_texts(round_number: int, count: int) -> Sequence[str]:
    chance = random.Random(round_number)  # noqa: S311 # a mix that both sides must see alike, not a secret
    shares, shapes = zip(*_SHAPES, strict=True)
    first = 1000 + round_number * count
    chosen: list[Callable[[int], str]] = chance.choices(shapes, shares, k=count)
    return [shape(first + offset) for offset, shape in enumerate(chosen)]


def _new_integers(round_number: int, count: int) -> Sequence[str]:
    # Far from the numbers of the mix, which have been read by the time these are.
    first = 10**7 + round_number * count
    return [str(first + offset) for offset in range(count)]


def _new_oddities(round_number: int, count: int) -> Sequence[str]:
    first = 2 * 10**7 + round_number * count
    return [f"-{first + offset}Mi" if offset % 2 else f"{first + offset}e3" for offset in range(count)]


def _indices(_round_number: int, count: int) -> Sequence[int]:
    return [index % len(_FAMILIAR) for index in range(count)]
