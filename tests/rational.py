"""Quantities once more, by rational arithmetic and in the plainest way: what the product's reading is held against.

Slow, and for well-formed texts only. It shares nothing with the product, neither code nor method.
"""

import math
import re
from fractions import Fraction

_PARTS = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)(.*)")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_UNITS = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(_DECIMAL, -3)},
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(_BINARY, 1)},
}
_LARGEST_BINARY = 2**63 - 1


def value(text: str) -> Fraction:
    """What the text says, to the last digit and without a cap."""
    assert magnitude(text) < 10_000, "a larger number would take this machine's memory"
    number, suffix = _split(text)
    return number * (_UNITS[suffix] if suffix in _UNITS else Fraction(10) ** _exponent(suffix))


def nano(text: str) -> int:
    """What Kubernetes reads: in nano units, rounded away from zero, capped if the suffix is a binary one."""
    exact = value(text)
    size = min(abs(exact), Fraction(_LARGEST_BINARY)) if text.endswith("i") else abs(exact)
    units = math.ceil(size * 10**9)
    return -units if exact < 0 else units


def magnitude(text: str) -> int:
    """How many digits the text has before its decimal point once the suffix is worked in; 0 for zero and below 1."""
    number, suffix = _split(text)
    if not number:
        return 0
    digits = len(str(abs(number.numerator) // number.denominator))
    return max(0, digits + (_exponent(suffix) if suffix not in _UNITS else math.ceil(math.log10(_UNITS[suffix]))))


def _split(text: str) -> tuple[Fraction, str]:
    parts = _PARTS.fullmatch(text)
    assert parts is not None, text
    sign, whole, fraction, suffix = parts.groups()
    number = Fraction(int((whole + fraction) or "0"), 10 ** len(fraction))
    return -number if sign == "-" else number, suffix


def _exponent(suffix: str) -> int:
    low_bits = int(suffix[1:]) & 0xFFFFFFFF
    return low_bits - 2**32 if low_bits >= 2**31 else low_bits
