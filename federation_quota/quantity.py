"""Exact Kubernetes quantities: reading them, comparing them, adding them up, printing them.

Every amount in the project is a `Quantity`: an integer number of nano units, the smallest step Kubernetes knows, and
the format it prints in. Floating point appears nowhere: what a tenant asked for is what is compared with the limit.

What reads or prints here does so as apimachinery 1.36 does, because the members run what *they* read. Where
Kubernetes would hang, grow without bound or print another amount than it holds, this module refuses or prints the
amount, and says so at the place.

Never here: resource names, units of a particular resource, limits and their meaning; no I/O, no clock. Called by
everything that handles an amount; `parse` takes what stands in a field of an object, `from_json` what a decoder made
of a JSON value, which Kubernetes reads a little more loosely.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import ClassVar, Final, NoReturn

_NANO: Final = 10**9

# Kubernetes caps what it reads with a binary suffix here, and only that: decimal amounts and sums go beyond.
_BINARY_CAP: Final = (2**63 - 1) * _NANO

# Amounts read are below 10**1000, and their texts no longer than any such amount prints. Kubernetes has no such bound:
# `1e999999999` passes its parser, then occupies a core and gigabytes at the first comparison. Nothing real comes near.
_MOST_DIGITS: Final = 1000
_LONGEST_TEXT: Final = 1024
_BOUND: Final = 10**_MOST_DIGITS * _NANO
_LARGEST_TEXT: Final = f"{'9' * _MOST_DIGITS}999999999n"
_TOO_LARGE: Final = f"is too large for a quantity: amounts are below 1e{_MOST_DIGITS}"

# What is remembered of the texts read (see `_Known`), and how much of a refused text a message repeats.
_MOST_REMEMBERED: Final = 4096
_LONGEST_REMEMBERED: Final = 64
_LONGEST_ECHO: Final = 40

_LOOKS_LIKE: Final = (
    "a quantity is a decimal number with at most one suffix out of n u m k M G T P E, Ki Mi Gi Ti Pi Ei, "
    "or an exponent such as e3; for example 2, 500m, 1.5Gi"
)


class QuantityError(ValueError):
    """Something given as a quantity is none, or an operation has no quantity as its answer."""


class Format(Enum):
    """How a quantity prints; no part of its value. The values are Kubernetes' own names."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


# Looking a member up in its class is dear, and these stand on every path.
_DECIMAL_SI: Final = Format.DECIMAL_SI
_BINARY_SI: Final = Format.BINARY_SI

_DECIMAL_SUFFIXES: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_UNITS: Final = {
    **{suffix: (10 ** (exponent + 9), _DECIMAL_SI) for exponent, suffix in _DECIMAL_SUFFIXES.items()},
    **{suffix: (1024**step * _NANO, _BINARY_SI) for step, suffix in enumerate(_BINARY_SUFFIXES) if step},
}

# Possessive throughout: each run of characters has one reading, so a long text that is none is refused in one pass.
_GRAMMAR: Final = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[+-]?+[0-9]*+)")


class _Known(dict[str | int, "Quantity"]):
    """The texts read so far. Looking one up *is* parsing it: a hit never leaves the dictionary.

    Only strings are ever kept, so that 1, 1.0 and True, which are one key to a dictionary, all come to `__missing__`.
    A full table is emptied: reading the few hundred texts in use again costs less than a millisecond, while knowing
    which they are would cost something on every look-up. Nobody can make it grow beyond a few megabytes.
    """

    __slots__ = ()

    def __missing__(self, text: object) -> "Quantity":
        if not isinstance(text, str):
            return _read_integer(text)
        if len(text) > _LONGEST_REMEMBERED:
            return _read(text)
        # Digits, perhaps a point, perhaps a suffix: what people write is read before a regular expression has begun.
        number = text.rstrip("numkKMGTPEi")
        unit = _UNITS.get(text[len(number) :])
        if unit is not None and number.isdigit() and number.isascii():
            nano, form = int(number) * unit[0], unit[1]
            if form is _BINARY_SI and nano > _BINARY_CAP:
                nano = _BINARY_CAP
            quantity = Quantity(nano, form)
        elif unit is not None and (digits := number.replace(".", "", 1)).isdigit() and digits.isascii():
            places = len(digits) - number.index(".")
            quantity = Quantity(*_fit(int(digits) * unit[0], 10**places, unit[1]))
        else:
            quantity = _read(text)
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        self[text] = quantity
        return quantity


_KNOWN: Final = _Known()


class Quantity:
    """An exact amount, in nano units, and the format it prints in. Immutable.

    Equality, order and hash go by the amount alone: `1Gi` and `1024Mi`, `1` and `1000m` are one amount.
    """

    # Not a frozen dataclass: setting the two fields of one takes as long as reading the text they come from.
    __slots__ = ("_format", "_nano")

    parse: ClassVar[Callable[[str | int], "Quantity"]] = _KNOWN.__getitem__
    """The quantity that a text, or an integer number of units, stands for; QuantityError if it stands for none."""

    def __init__(self, nano: int, format: Format = _DECIMAL_SI) -> None:  # noqa: A002 # the field's name
        if type(nano) is not int:
            raise TypeError(f"nano units are an int, not {type(nano).__name__}")
        self._nano = nano
        self._format = format

    @property
    def nano(self) -> int:
        """How many nano units it is."""
        return self._nano

    @property
    def format(self) -> Format:
        """How it prints, as far as the amount lets it."""
        return self._format

    @property
    def is_zero(self) -> bool:
        """Whether there is nothing of it."""
        return not self._nano

    def __bool__(self) -> NoReturn:
        # `if limit:` would take a limit of 0 for no limit at all, and let everything pass.
        raise TypeError("a quantity is neither true nor false: ask for is_zero, or compare with None")

    def whole(self) -> int:
        """The number of whole units, rounded away from zero, as Kubernetes' Value."""
        return _divide_away_from_zero(self._nano, _NANO)

    def milli(self) -> int:
        """The number of thousandths, rounded away from zero, as Kubernetes' MilliValue."""
        return _divide_away_from_zero(self._nano, 10**6)

    def to_json(self) -> str:
        """The text to store in an object: canonical, and `parse` gives exactly this amount back.

        It differs from `str` for binary sums above 2**63-1 only: Kubernetes prints 8Ei for 4Ei + 4Ei, but reads 8Ei
        as one byte less and 400Ei as 8Ei, so that usage stored in that form would come back smaller than it was.

        A sum beyond all that `parse` reads is stored as the largest that it does: still above every limit there can
        be, while an object that holds what nobody can read would be lost to everybody.
        """
        if -_BOUND < self._nano < _BOUND:
            is_beyond_cap = abs(self._nano) > _BINARY_CAP and self._format is _BINARY_SI
            return _print_decimal(self._nano, _DECIMAL_SI) if is_beyond_cap else str(self)
        return _LARGEST_TEXT if self._nano > 0 else f"-{_LARGEST_TEXT}"

    def __str__(self) -> str:
        nano = self._nano
        if self._format is _BINARY_SI:
            # Small and fractional amounts have no exact binary form: Kubernetes prints them as decimals.
            if abs(nano) < 1024 * _NANO or nano % _NANO:
                return _print_decimal(nano, _DECIMAL_SI)
            units = nano // _NANO
            # Kubernetes 1.36 divides further where it can, and loses the suffix that is not there: Ei is the last.
            step = min(((units & -units).bit_length() - 1) // 10, 6)
            return f"{units >> 10 * step}{_BINARY_SUFFIXES[step]}"
        return _print_decimal(nano, self._format)

    def __repr__(self) -> str:
        return f"<Quantity {self}>"

    def __add__(self, other: "Quantity") -> "Quantity":
        if not isinstance(other, Quantity):
            return NotImplemented
        return Quantity(self._nano + other._nano, self._format if self._nano else other._format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        if not isinstance(other, Quantity):
            return NotImplemented
        return Quantity(self._nano - other._nano, self._format if self._nano else other._format)

    def __neg__(self) -> "Quantity":
        return Quantity(-self._nano, self._format)

    def __mul__(self, count: int) -> "Quantity":
        if not isinstance(count, int):
            return NotImplemented
        return Quantity(self._nano * count, self._format)

    def __rmul__(self, count: int) -> "Quantity":
        return self * count

    def __eq__(self, other: object) -> bool:
        return self._nano == other._nano if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._nano)

    def __lt__(self, other: "Quantity") -> bool:
        return self._nano < other._nano if isinstance(other, Quantity) else NotImplemented

    def __le__(self, other: "Quantity") -> bool:
        return self._nano <= other._nano if isinstance(other, Quantity) else NotImplemented

    def __gt__(self, other: "Quantity") -> bool:
        return self._nano > other._nano if isinstance(other, Quantity) else NotImplemented

    def __ge__(self, other: "Quantity") -> bool:
        return self._nano >= other._nano if isinstance(other, Quantity) else NotImplemented


class _Unlimited(Quantity):
    """The limit where there is none: above every amount, and not changed by adding or taking one away.

    It is a limit, not a number: whatever would need one (its nano units, its negative, a finite amount less it,
    none of it) is refused. A subclass, so that Python asks it first in mixed operations, and finite amounts, which
    are all that hot paths see, pay nothing for it.
    """

    __slots__ = ()

    def __init__(self) -> None:
        self._format = _DECIMAL_SI

    @property
    def _nano(self) -> int:  # type: ignore[override] # the slot it hides stays empty: there is no number to hold
        raise QuantityError("unlimited is above every amount: it has no number of units")

    @property
    def is_zero(self) -> bool:
        return False

    def __str__(self) -> str:
        return "unlimited"

    def __reduce__(self) -> str:
        # Copies and pickles are this one object again, so that `is UNLIMITED` may be asked anywhere.
        return "UNLIMITED"

    def __add__(self, other: Quantity) -> Quantity:
        return self if isinstance(other, Quantity) else NotImplemented

    def __radd__(self, other: Quantity) -> Quantity:
        return self + other

    def __sub__(self, other: Quantity) -> Quantity:
        if other is self:
            raise QuantityError("unlimited less unlimited could be any amount")
        return self + other

    def __rsub__(self, other: Quantity) -> Quantity:
        raise QuantityError(f"{other} less unlimited is below every amount")

    def __mul__(self, count: int) -> Quantity:
        if isinstance(count, int) and count <= 0:
            raise QuantityError(f"unlimited times {count} is no amount")
        return self if isinstance(count, int) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return other is self

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __lt__(self, other: Quantity) -> bool:
        return False if isinstance(other, Quantity) else NotImplemented

    def __le__(self, other: Quantity) -> bool:
        return other is self if isinstance(other, Quantity) else NotImplemented

    def __gt__(self, other: Quantity) -> bool:
        return other is not self if isinstance(other, Quantity) else NotImplemented

    def __ge__(self, other: Quantity) -> bool:
        return True if isinstance(other, Quantity) else NotImplemented


ZERO: Final = Quantity(0)
UNLIMITED: Final[Quantity] = _Unlimited()

parse: Final = Quantity.parse


def from_json(value: object) -> Quantity:
    """The quantity a decoded JSON value stands for where Kubernetes reads one: text, a number, or null for zero.

    Space around text is ignored there, as `parse` never does. A number is taken as it was written, if the decoder
    kept that (`json.loads(body, parse_float=str)`, or Decimal). A float stands for its shortest decimal form, which
    is what was written whenever that had at most 15 significant digits; its binary expansion is never looked at.
    """
    if value is None:
        return ZERO
    if isinstance(value, str):
        return parse(value.strip())
    if isinstance(value, float | Decimal):
        return parse(str(value))
    if isinstance(value, int):
        return parse(value)
    raise QuantityError(f"{_echo(value)} is not a quantity, nor text or a number: {_LOOKS_LIKE}")


def _read_integer(value: object) -> Quantity:
    if not isinstance(value, int) or isinstance(value, bool):
        raise QuantityError(f"{_echo(value)} is not a quantity, nor text or an integer: {_LOOKS_LIKE}")
    if abs(value) * _NANO >= _BOUND:
        raise QuantityError(f"an integer of {value.bit_length()} bits {_TOO_LARGE}")
    return Quantity(value * _NANO, _DECIMAL_SI)


def _read(text: str) -> Quantity:
    """The whole grammar."""
    if len(text) > _LONGEST_TEXT:
        raise QuantityError(f"{_echo(text)} is not a quantity: it has more than {_LONGEST_TEXT} characters")
    match = _GRAMMAR.fullmatch(text)
    if not text or match is None:
        raise QuantityError(f"{_echo(text)} is not a quantity: {_LOOKS_LIKE}")
    sign, whole, fraction, suffix = match.groups("")
    digits = whole + fraction
    mantissa = int(digits or "0")
    unit = _UNITS.get(suffix)
    if unit is not None:
        factor, form = unit
        divisor = 10 ** len(fraction)
        is_zero_without_digits = suffix not in ("Pi", "Ei")
    else:
        form = Format.DECIMAL_EXPONENT
        exponent = _exponent(suffix)
        if exponent is None:
            raise QuantityError(f"{_echo(text)} is not a quantity, {_echo(suffix)} is no suffix: {_LOOKS_LIKE}")
        is_zero_without_digits = exponent >= -9
        # Powers are cut where they cannot matter any more: zero stays zero, an amount at the bound is refused below,
        # and a divisor above every mantissa leaves the smallest amount there is.
        power = exponent + 9 - len(fraction)
        factor = 10 ** min(power, _MOST_DIGITS + 9) if power > 0 else 1
        divisor = 10 ** min(-power, _LONGEST_TEXT) if power < 0 else 1
    # No digits at all are zero to Kubernetes, `+`, `.`, `m` or `Ki`, except on the slower way through its parser.
    if not digits and not is_zero_without_digits:
        raise QuantityError(f"{_echo(text)} is not a quantity, it has no digits: {_LOOKS_LIKE}")
    nano, form = _fit(mantissa * factor, divisor, form)
    if nano >= _BOUND:
        raise QuantityError(f"{_echo(text)} {_TOO_LARGE}")
    return Quantity(-nano if sign == "-" else nano, form)


def _fit(dividend: int, divisor: int, form: Format) -> tuple[int, Format]:
    # Away from zero, never down to nothing: whoever asks for something gets something.
    nano = -(-dividend // divisor)
    if form is _BINARY_SI:
        if nano > _BINARY_CAP:
            return _BINARY_CAP, form
        # Less than one has no binary form: Kubernetes takes it for a decimal from here on.
        if 0 < nano < _NANO:
            return nano, _DECIMAL_SI
    return nano, form


def _exponent(suffix: str) -> int | None:
    if suffix[:1] not in ("e", "E"):
        return None
    try:
        exponent = int(suffix[1:])
    except ValueError:
        return None
    if not -(2**63) <= exponent < 2**63:
        return None
    # Kubernetes keeps the low 32 bits, so `1e4294967299` is 1e3 to every member that runs it: and so it is to us.
    return (exponent + 2**31) % 2**32 - 2**31


def _divide_away_from_zero(amount: int, step: int) -> int:
    return -(-amount // step) if amount > 0 else amount // step


def _print_decimal(nano: int, form: Format) -> str:
    if not nano:
        return "0"
    text = str(nano)
    mantissa = text.rstrip("0")
    exponent = len(text) - len(mantissa) - 9
    # Down to a multiple of three, the zeros between going back to the mantissa.
    spare = exponent % 3
    exponent -= spare
    mantissa += "0" * spare
    # Beyond E there is no suffix. Kubernetes 1.36 then prints none at all, 1 for 1000E; later ones, as here, 1e21.
    suffix = _DECIMAL_SUFFIXES.get(exponent) if form is _DECIMAL_SI or not exponent else None
    return f"{mantissa}e{exponent}" if suffix is None else f"{mantissa}{suffix}"


def _echo(value: object) -> str:
    """What was given, as a message shows it: escaped, and short whatever it was."""
    if isinstance(value, str) and len(value) > _LONGEST_ECHO:
        return f"{value[:_LONGEST_ECHO]!r}..."
    return repr(value) if isinstance(value, str | bool | float | None) else f"a {type(value).__name__}"
