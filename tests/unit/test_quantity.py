"""Quantities as everyone who writes, compares or reads a limit meets them."""

import copy
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota import quantity as module
from federation_quota.quantity import UNLIMITED, ZERO, Format, Quantity, QuantityError, from_json, parse
from tests import rational

formats = st.sampled_from(Format)
signs = st.sampled_from(["", "+", "-"])
suffixes = st.sampled_from(["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]) | st.builds(
    "{}{}{}".format, st.sampled_from("eE"), signs, st.integers(0, 40)
)
digits = st.text("0123456789", min_size=1, max_size=25)
written = st.builds("{}{}{}".format, signs, digits, suffixes) | st.builds(
    "{}{}.{}{}".format, signs, digits, st.text("0123456789", max_size=15), suffixes
)
# Plain integers find small amounts; the products find those that are whole in some unit, and those beyond every suffix.
nanos = st.integers() | st.builds(
    lambda count, unit, power: count * unit**power,
    st.integers(-(10**6), 10**6),
    st.sampled_from([10, 1000, 1024]),
    st.integers(0, 14),
)
wholes = st.builds(lambda nano: nano * 10**9, nanos)
quantities = st.builds(Quantity, nanos | wholes, formats)


class TestReading:
    @pytest.mark.parametrize(
        ("text", "nano"),
        [
            ("0", 0),
            ("2", 2 * 10**9),
            ("500m", 5 * 10**8),
            ("1.5Gi", 3 * 2**29 * 10**9),
            ("-1Ki", -1024 * 10**9),
            ("+1k", 10**12),
            ("1E", 10**27),
            ("1E3", 10**12),
            (".5", 5 * 10**8),
            ("1.", 10**9),
            ("3n", 3),
        ],
    )
    def test_a_quantity_is_read_to_the_nano_unit(self, text: str, nano: int) -> None:
        assert parse(text).nano == nano

    @pytest.mark.parametrize(("text", "nano"), [("0.1n", 1), ("-0.1n", -1), ("1.0000000001", 10**9 + 1), ("1e-30", 1)])
    def test_what_is_finer_than_nano_is_rounded_away_from_zero(self, text: str, nano: int) -> None:
        assert parse(text).nano == nano

    @pytest.mark.parametrize("text", ["8Ei", "9Ei", "100000.5Pi", "99999999999999999999Ki"])
    def test_a_binary_suffix_reads_no_more_than_an_int64_holds(self, text: str) -> None:
        assert parse(text) == parse(2**63 - 1)
        assert parse(f"-{text}") == parse(1 - 2**63)

    def test_a_decimal_suffix_has_no_such_cap(self) -> None:
        assert parse("100E").whole() == 10**20

    @pytest.mark.parametrize("text", ["+", "-", ".", "-.", "m", "Ki", "Ti", "+.E", "e5", "-e-9"])
    def test_no_digits_are_zero_as_they_are_to_kubernetes(self, text: str) -> None:
        assert parse(text).is_zero

    @pytest.mark.parametrize("text", ["Pi", "Ei", "+Ei", ".Pi", "e-10", "-.e-12"])
    def test_but_not_where_kubernetes_refuses_them(self, text: str) -> None:
        with pytest.raises(QuantityError, match="no digits"):
            parse(text)

    @pytest.mark.parametrize(
        "text",
        [
            *("", " ", " 5 ", "5 ", "5\n", "1_000", "1,5", "NaN", "nan", "Infinity", "-inf", "unlimited", "0x10"),
            *("1K", "1ki", "1Zi", "1mi", "1i", "1GB", "1Gi1", "1e", "1e+", "1e3.5", "1e3e3", "1.2.3", "--1", "1-"),
            *("٣", "²", "1٣", "1.٣", "1µ", "\x00", "\ud800", "1\u2028", "1e99999999999999999999"),
        ],
    )
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(QuantityError):
            parse(text)

    def test_a_refusal_shows_what_was_given_and_what_was_expected(self) -> None:
        with pytest.raises(QuantityError, match=r"^'1_000' is not a quantity: .*for example 2, 500m, 1\.5Gi$"):
            parse("1_000")
        with pytest.raises(QuantityError, match=r"^'1K' is not a quantity, 'K' is no suffix: "):
            parse("1K")

    def test_a_refusal_never_repeats_a_long_text(self) -> None:
        for text in ("x" * 10**6, "1" + "K" * 900, "9" * 10**6, "1e" + "9" * 900):
            with pytest.raises(QuantityError) as refusal:
                parse(text)
            assert len(str(refusal.value)) < 300

    def test_an_integer_is_a_number_of_units(self) -> None:
        assert parse(5) == parse("5")
        assert parse(-(2**70)) == parse(str(-(2**70)))
        assert str(parse(1000)) == "1k"

    @pytest.mark.parametrize("value", [True, False, 1.0, 0.5, float("nan"), None, b"1", (1,), Decimal(1)])
    def test_no_other_type_is_read(self, value: object) -> None:
        parse_anything: Callable[[Any], Quantity] = parse
        # Known as text and integer first, because 1, 1.0 and True are one key to a dictionary.
        parse(1)
        parse("1")
        with pytest.raises(QuantityError, match="is not a quantity"):
            parse_anything(value)

    @given(written)
    def test_reading_agrees_with_rational_arithmetic(self, text: str) -> None:
        assert parse(text).nano == rational.nano(text)

    @given(st.text() | st.text("0123456789.+-eEinumkKMGTP _", max_size=12))
    def test_a_text_is_read_or_refused_and_nothing_else(self, text: str) -> None:
        try:
            quantity = parse(text)
        except QuantityError:
            return
        assert parse(text) is quantity or len(text) > 64

    @given(st.integers(1, 3000))
    def test_what_is_remembered_is_what_was_read(self, count: int) -> None:
        first = parse(f"{count}Mi")
        again = parse("".join([str(count), "Mi"]))
        assert (again.nano, again.format) == (first.nano, first.format)

    def test_new_texts_cannot_make_the_memory_grow_without_bound(self) -> None:
        for number in range(20_000):
            parse(f"{number}u")
        parse("0" * 1000)
        assert len(module._KNOWN) <= 4096
        assert max(map(len, map(str, module._KNOWN))) <= 64


class TestBounds:
    def test_amounts_below_1e1000_are_read(self) -> None:
        assert parse("1e999").nano == 10**1008
        assert parse("9" * 1000).nano == (10**1000 - 1) * 10**9
        assert parse(10**1000 - 1) == parse("9" * 1000)
        assert parse("0." + "0" * 1000 + "1").nano == 1

    @pytest.mark.parametrize("text", ["1e1000", "-1e1000", "1e2147483647", "10e999", "9.9e1000", "1" + "0" * 1000])
    def test_larger_ones_are_refused(self, text: str) -> None:
        with pytest.raises(QuantityError, match="amounts are below 1e1000"):
            parse(text)

    def test_a_larger_integer_is_refused(self) -> None:
        with pytest.raises(QuantityError, match="amounts are below 1e1000"):
            parse(10**1000)

    def test_a_text_of_any_length_is_refused(self) -> None:
        for text in ("1" * 5000, "0" * 5000, "1" * 10**6 + "x", "." + "0" * 10**6 + "1"):
            with pytest.raises(QuantityError, match="more than 1024 characters"):
                parse(text)

    @pytest.mark.parametrize("text", ["1e-2147483648", "7.5e-2147483647", "0.1e-1000", "9" * 1000 + "e-99999"])
    def test_a_hugely_negative_exponent_is_the_smallest_amount(self, text: str) -> None:
        assert parse(text).nano == 1
        assert parse(f"-{text}").nano == -1

    @pytest.mark.parametrize("text", ["0e2147483647", "0e-2147483648", "0.000e999999"])
    def test_zero_is_zero_at_any_exponent(self, text: str) -> None:
        assert parse(text).is_zero

    @pytest.mark.parametrize(
        ("text", "same"), [("1e4294967299", "1e3"), ("1e-4294967295", "10"), ("5e8589934592", "5")]
    )
    def test_an_exponent_counts_by_its_low_32_bits_as_it_does_to_kubernetes(self, text: str, same: str) -> None:
        assert parse(text) == parse(same)


class TestJson:
    @pytest.mark.parametrize(
        ("document", "text"),
        [
            ("null", "0"),
            ("5", "5"),
            ("-1", "-1"),
            ("0.5", "500m"),
            ("0.1", "100m"),
            ("1e3", "1e3"),
            ('"1.5Gi"', "1536Mi"),
            ('" 5 "', "5"),
            ('"\\t5\\n"', "5"),
            ("0.30000000000000001", "300000001n"),
            ("123456789.123456789", "123456789123456789n"),
        ],
    )
    def test_a_value_is_what_was_written(self, document: str, text: str) -> None:
        assert str(from_json(json.loads(document, parse_float=str))) == text
        assert from_json(json.loads(document, parse_float=Decimal)) == parse(text)

    @pytest.mark.parametrize(("number", "text"), [(0.1, "100m"), (0.7, "700m"), (1e21, "1e21"), (1e-7, "100n")])
    def test_a_float_is_its_shortest_decimal_never_its_binary_expansion(self, number: float, text: str) -> None:
        assert from_json(number) == parse(text)

    @given(st.decimals(-(10**6), 10**6, places=6))
    def test_a_number_of_a_few_digits_survives_a_decoder_that_makes_floats(self, number: Decimal) -> None:
        assert from_json(json.loads(str(number))) == from_json(number)
        assert Fraction(from_json(number).nano, 10**9) == Fraction(number)

    @pytest.mark.parametrize(
        "document", ["true", "false", "NaN", "-Infinity", "[]", "{}", '["1"]', '""', '" "', '"1 Gi"']
    )
    def test_any_other_value_is_refused(self, document: str) -> None:
        with pytest.raises(QuantityError, match="is not a quantity"):
            from_json(json.loads(document))

    @given(quantities)
    def test_what_is_stored_comes_back_exactly(self, quantity: Quantity) -> None:
        assert from_json(json.loads(json.dumps(quantity.to_json()))) == quantity

    def test_a_binary_sum_beyond_the_cap_is_stored_so_that_it_comes_back(self) -> None:
        total = parse("4Ei") * 100
        assert str(total) == "400Ei"
        assert parse(str(total)) < total
        assert parse(total.to_json()) == total


class TestPrinting:
    @pytest.mark.parametrize(
        ("text", "canonical"),
        [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1.500", "1500m"),
            ("1e4", "10e3"),
            ("1E6", "1e6"),
            ("1e0", "1"),
            ("1536Mi", "1536Mi"),
            ("2048Mi", "2Gi"),
            ("1023Ki", "1023Ki"),
            ("0.5Ki", "512"),
            ("1.1Ki", "1126400m"),
            ("-1024Mi", "-1Gi"),
            ("0Gi", "0"),
            ("-0", "0"),
            ("0100", "100"),
        ],
    )
    def test_it_prints_in_canonical_form(self, text: str, canonical: str) -> None:
        assert str(parse(text)) == canonical

    def test_beyond_the_largest_suffix_the_magnitude_is_not_lost(self) -> None:
        assert str(parse("1000E")) == "1e21"
        assert str(parse("-123456E") * 1000) == "-123456e21"
        assert str(parse("4Ei") * 1024) == "4096Ei"

    @given(quantities)
    def test_the_text_says_the_amount(self, quantity: Quantity) -> None:
        assert rational.value(str(quantity)) == Fraction(quantity.nano, 10**9)

    @given(quantities)
    def test_the_text_reads_as_the_same_amount(self, quantity: Quantity) -> None:
        text = str(quantity)
        if text.endswith("i") and abs(quantity.whole()) >= 2**63:
            return  # what Kubernetes prints but reads capped: `to_json` is for that
        assert parse(text) == quantity
        assert str(Quantity(parse(text).nano, quantity.format)) == text

    @given(written)
    def test_canonical_form_is_final(self, text: str) -> None:
        quantity = parse(text)
        canonical = str(quantity)
        if quantity.format is Format.BINARY_SI and not canonical.endswith("i"):
            return  # 2000 for 1.953125Ki: read on its own it is a decimal, which prints as 2k, in Kubernetes too
        assert str(parse(canonical)) == canonical

    def test_a_debugger_shows_the_amount(self) -> None:
        assert repr(parse("1Gi")) == "<Quantity 1Gi>"


class TestOrder:
    def test_amounts_are_equal_across_formats(self) -> None:
        assert parse("1Gi") == parse("1024Mi") == parse("1073741824") == parse("1073741824e0")
        assert len({parse("1"), parse("1000m"), parse("1e0"), Quantity(10**9, Format.BINARY_SI)}) == 1

    def test_amounts_are_ordered_across_formats(self) -> None:
        texts = ["1Gi", "-1", "1G", "0", "1n", "1e9", "100m"]
        assert [str(quantity) for quantity in sorted(map(parse, texts))] == [
            "-1",
            "0",
            "1n",
            "100m",
            "1G",
            "1e9",
            "1Gi",
        ]
        assert max(parse("1G"), parse("1Gi")) == parse("1Gi")
        assert min(parse("1G"), parse("1Gi")) == parse("1G")

    @given(quantities, quantities)
    def test_order_is_that_of_the_rational_numbers(self, left: Quantity, right: Quantity) -> None:
        mine, theirs = rational.value(str(left)), rational.value(str(right))
        assert (left < right, left <= right, left == right) == (mine < theirs, mine <= theirs, mine == theirs)
        assert (left > right, left >= right, left != right) == (mine > theirs, mine >= theirs, mine != theirs)

    @given(nanos, formats, formats)
    def test_equal_amounts_have_equal_hashes(self, nano: int, one: Format, other: Format) -> None:
        assert Quantity(nano, one) == Quantity(nano, other)
        assert hash(Quantity(nano, one)) == hash(Quantity(nano, other))

    def test_an_amount_is_no_bare_number(self) -> None:
        other: Any = 1
        assert parse("1") != other
        for operation in ("__lt__", "__le__", "__gt__", "__ge__", "__add__", "__sub__"):
            assert getattr(parse("1"), operation)(other) is NotImplemented
            assert getattr(UNLIMITED, operation.replace("sub", "add"))(other) is NotImplemented
        with pytest.raises(TypeError):
            parse("1") + other
        with pytest.raises(TypeError):
            parse("1") * (other / 2)
        with pytest.raises(TypeError):
            Quantity(other / 2)

    def test_an_amount_is_neither_true_nor_false(self) -> None:
        for quantity in (ZERO, parse("1"), UNLIMITED):
            with pytest.raises(TypeError, match="neither true nor false"):
                bool(quantity)

    def test_an_amount_cannot_be_changed(self) -> None:
        quantity: Any = parse("1")
        for name in ("nano", "format", "anything"):
            with pytest.raises(AttributeError):
                setattr(quantity, name, 2)

    @given(quantities)
    def test_a_copy_is_equal(self, quantity: Quantity) -> None:
        for other in (copy.deepcopy(quantity), pickle.loads(pickle.dumps(quantity))):  # noqa: S301 # our own bytes
            assert (other.nano, other.format) == (quantity.nano, quantity.format)


class TestArithmetic:
    @pytest.mark.parametrize(
        ("left", "right", "total", "form"),
        [
            ("1Gi", "512Mi", "1536Mi", Format.BINARY_SI),
            ("1G", "1Gi", "2073741824", Format.DECIMAL_SI),
            ("1Gi", "1G", "2073741824", Format.BINARY_SI),
            ("0", "1Gi", "1Gi", Format.BINARY_SI),
            ("0Gi", "1G", "1G", Format.DECIMAL_SI),
            ("1Gi", "0", "1Gi", Format.BINARY_SI),
            ("1e3", "1", "1001", Format.DECIMAL_EXPONENT),
        ],
    )
    def test_a_sum_prints_as_its_left_side_does_unless_that_is_zero(
        self, left: str, right: str, total: str, form: Format
    ) -> None:
        result = parse(left) + parse(right)
        assert (str(result), result.format) == (total, form)

    def test_a_difference_prints_by_the_same_rule(self) -> None:
        assert str(parse("1Gi") - parse("512Mi")) == "512Mi"
        assert str(parse("0") - parse("1Gi")) == "-1Gi"
        assert (parse("1Gi") - parse("1Gi")).format is Format.BINARY_SI

    def test_replicas_times_a_request(self) -> None:
        assert str(3 * parse("500m")) == "1500m"
        assert str(parse("512Mi") * 4) == "2Gi"
        assert (parse("512Mi") * 0).is_zero

    def test_many_add_up(self) -> None:
        assert str(sum([parse("512Mi")] * 4, ZERO)) == "2Gi"

    @given(quantities, quantities, quantities)
    def test_sums_do_not_depend_on_order(self, a: Quantity, b: Quantity, c: Quantity) -> None:
        assert a + b == b + a
        assert (a + b) + c == a + (b + c)

    @given(quantities, quantities)
    def test_sums_are_exact(self, a: Quantity, b: Quantity) -> None:
        assert rational.value(str(a + b)) == rational.value(str(a)) + rational.value(str(b))

    @given(quantities, quantities)
    def test_taking_away_undoes_adding(self, a: Quantity, b: Quantity) -> None:
        assert a + b - b == a
        assert a - b == a + -b
        assert ZERO - a == -a
        assert (-a).format is a.format

    @given(quantities, st.integers(0, 50))
    def test_a_product_is_a_repeated_sum(self, quantity: Quantity, count: int) -> None:
        assert quantity * count == count * quantity == sum([quantity] * count, ZERO)

    @given(quantities)
    def test_rounding_goes_away_from_zero(self, quantity: Quantity) -> None:
        exact = Fraction(quantity.nano, 10**9)
        for rounded, value in ((quantity.whole(), exact), (quantity.milli(), exact * 1000)):
            assert 0 <= abs(rounded) - abs(value) < 1
            assert rounded * value >= 0

    def test_rounding(self) -> None:
        assert (parse("1001m").whole(), parse("-1001m").whole(), parse("2").whole()) == (2, -2, 2)
        assert (parse("1u").milli(), parse("-1n").milli(), parse("2").milli()) == (1, -1, 2000)


class TestUnlimited:
    @given(quantities)
    def test_it_is_above_every_amount(self, quantity: Quantity) -> None:
        limit = UNLIMITED
        assert (quantity < limit, quantity <= limit, quantity == limit) == (True, True, False)
        assert (quantity > limit, quantity >= limit, quantity != limit) == (False, False, True)
        assert (limit < quantity, limit <= quantity, limit == quantity) == (False, False, False)
        assert (limit > quantity, limit >= quantity, limit != quantity) == (True, True, True)
        assert max(quantity, limit) is limit
        assert min(limit, quantity) is quantity

    def test_it_is_equal_to_itself_only(self) -> None:
        limit, same = UNLIMITED, UNLIMITED
        assert (limit < same, limit <= same, limit == same) == (False, True, True)
        assert (limit > same, limit >= same, limit != same) == (False, True, False)
        assert {limit: 1}[same] == 1

    @given(quantities)
    def test_adding_or_taking_away_leaves_it_unlimited(self, quantity: Quantity) -> None:
        assert UNLIMITED + quantity is UNLIMITED
        assert quantity + UNLIMITED is UNLIMITED
        assert UNLIMITED - quantity is UNLIMITED

    def test_more_of_it_is_unlimited(self) -> None:
        assert UNLIMITED + UNLIMITED is UNLIMITED
        assert UNLIMITED * 3 is UNLIMITED
        assert 3 * UNLIMITED is UNLIMITED
        assert not UNLIMITED.is_zero

    @pytest.mark.parametrize(
        "ask",
        [
            pytest.param(lambda: UNLIMITED.nano, id="its nano units"),
            pytest.param(UNLIMITED.whole, id="its units"),
            pytest.param(UNLIMITED.milli, id="its thousandths"),
            pytest.param(UNLIMITED.to_json, id="its text in an object"),
            pytest.param(lambda: -UNLIMITED, id="its negative"),
            pytest.param(lambda: UNLIMITED - UNLIMITED, id="unlimited less unlimited"),
            pytest.param(lambda: parse("1") - UNLIMITED, id="an amount less unlimited"),
            pytest.param(lambda: UNLIMITED * 0, id="none of it"),
            pytest.param(lambda: UNLIMITED * -1, id="less than none of it"),
        ],
    )
    def test_what_would_need_a_number_is_refused(self, ask: Callable[[], object]) -> None:
        with pytest.raises(QuantityError, match="unlimited"):
            ask()

    def test_it_prints_as_a_word_that_is_not_read(self) -> None:
        assert str(UNLIMITED) == "unlimited"
        with pytest.raises(QuantityError):
            parse(str(UNLIMITED))

    def test_there_is_one_of_it(self) -> None:
        assert copy.copy(UNLIMITED) is UNLIMITED
        assert copy.deepcopy([UNLIMITED])[0] is UNLIMITED
        assert pickle.loads(pickle.dumps(UNLIMITED)) is UNLIMITED  # noqa: S301 # our own bytes
