"""Any text: an exact amount, by an independent reading, or a clear error; at a cost that the text's length bounds."""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.quantity import Quantity, QuantityError, from_json, parse
from tests import rational
from tests.fuzz.budget import examples
from tests.fuzz.hostile import ANY_JSON, HOSTILE

NEAR = st.from_regex(r"[+-]?[0-9]{0,30}(\.[0-9]{0,30})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,12})?", fullmatch=True)
TEXT = st.one_of(NEAR, st.text(alphabet="0123456789+-.eEinumkKMGTP \x00_", max_size=40), st.text(max_size=20))
MOST_MEMORY = 200_000  # bytes, for a text of any length
MOST_CALLS = 60
COSTLY: list[Any] = [*HOSTILE, Decimal("1e999999999"), 10**10_000]


def outcome(text: Any, reading: Callable[[Any], Quantity] = parse) -> Quantity | None:  # noqa: ANN401
    try:
        return reading(text)
    except QuantityError as error:
        said = str(error)
    assert len(said) < 400
    assert said.isprintable()
    return None


def expected(text: str) -> int:
    """The independent reading, which would take this machine's memory for what is absurdly small."""
    mantissa, _, exponent = text.lower().partition("e")
    if not exponent.lstrip("+-").isdigit() or abs(rational._exponent("e" + exponent)) < 2000:
        return rational.nano(text)
    # An amount that was read and has such an exponent is zero, or the smallest that there is.
    is_zero = not mantissa.strip("+-.0")
    return 0 if is_zero else -1 if mantissa.startswith("-") else 1


@examples(75)
@given(TEXT)
def test_any_text_is_read_exactly_or_refused(text: str) -> None:
    found = outcome(text)
    if found is None:
        return
    assert abs(found.nano) < 10**1009
    if any(character.isdigit() for character in text):
        assert found.nano == expected(text)
    assert parse(found.to_json()) == found
    assert parse(str(found)) == found or found.format.value == "BinarySI"


@examples(20)
@given(ANY_JSON)
def test_any_json_value_is_read_or_refused(value: Any) -> None:  # noqa: ANN401
    outcome(value, from_json)
    if not isinstance(value, list | dict):
        outcome(value)


@examples(15)
@given(st.lists(NEAR.filter(lambda text: outcome(text) is not None), max_size=8), st.integers(0, 2**31))
def test_sums_and_products_are_exact_and_come_back(texts: list[str], count: int) -> None:
    amounts = [parse(text) for text in texts]
    total = sum((amount * count for amount in amounts), parse(0))
    assert Fraction(total.nano) == sum((Fraction(amount.nano) * count for amount in amounts), Fraction(0))
    if abs(total.nano) < 10**1009:
        assert parse(total.to_json()) == total


def test_a_sum_beyond_all_that_is_read_is_stored_as_the_largest_that_is() -> None:
    largest = parse("9" * 1000)
    for amount in (parse("1e999") * 10, parse("9e999") * 2**31, largest + parse("1")):
        stored = amount.to_json()
        assert len(stored) <= 1024
        assert parse(stored) >= largest
        assert parse((-amount).to_json()) == -parse(stored)


@pytest.mark.parametrize("number", range(len(COSTLY)))
def test_reading_takes_little_whatever_it_is(number: int) -> None:
    """Counted, not timed: the memory and the calls that reading takes."""
    value = COSTLY[number]
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()  # what others left is not to be collected, and counted, here
    tracemalloc.start()
    sys.setprofile(count)
    try:
        from_json(value)
    except QuantityError:
        pass
    finally:
        sys.setprofile(None)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        gc.enable()
    assert calls < MOST_CALLS
    assert peak < MOST_MEMORY + 3 * len(str(value) if isinstance(value, str) else "")
