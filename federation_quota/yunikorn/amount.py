"""Amounts as YuniKorn writes and compares them: whole numbers by the name of a resource, vcore in thousandths."""

import re
from collections.abc import Mapping
from typing import Final

from federation_quota.yunikorn.document import ConfigError

VCORE: Final = "vcore"
"""What it calls processors; the only name that counts in thousandths."""

Written = Mapping[str, str] | None
"""As a configuration has them; None where it has nothing."""
Amounts = Mapping[str, int]

_FORM: Final = re.compile(r"([0-9]+)\s*([mkKMGTPE]i?)?")
_MILLI: Final = "m"
_FACTORS: Final = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)},
}
_LARGEST: Final = 2**63 - 1
_MOST_DIGITS: Final = len(str(_LARGEST))


def parse(text: str, name: str) -> int:
    """One amount; ConfigError for what is none."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ConfigError("invalid quantity")
    digits, suffix = found[1].lstrip("0"), found[2] or ""
    if len(digits) > _MOST_DIGITS:
        raise ConfigError("invalid quantity: overflow")
    number = int(digits or "0")
    if suffix == _MILLI and name == VCORE:
        amount = number
    elif suffix in _FACTORS:
        amount = number * _FACTORS[suffix] * (1000 if name == VCORE else 1)
    else:
        raise ConfigError("invalid suffix")
    if max(number, amount) > _LARGEST:
        raise ConfigError("invalid quantity: overflow")
    return amount


def read(written: Written) -> dict[str, int]:
    """All of them, in the order of their names."""
    return {name: parse(text, name) for name, text in sorted((written or {}).items())}


def fits(amounts: Amounts, most: Amounts) -> bool:
    """Whether they are within a limit; what that does not name is not limited."""
    return all(amount <= most[name] for name, amount in amounts.items() if name in most)


def least(one: Amounts, other: Amounts) -> dict[str, int]:
    """Of each resource the lower; of what only one names, that."""
    both = {**other, **one}
    return {name: min(amount, other.get(name, amount)) for name, amount in both.items()}


def plus(one: Amounts, other: Amounts) -> dict[str, int]:
    """Both together."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def shown(amounts: Amounts) -> str:
    """As YuniKorn's messages have them."""
    return f"map[{' '.join(f'{name}:{amount}' for name, amount in sorted(amounts.items()))}]"
