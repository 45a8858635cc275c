"""Values that nobody expects, and documents with such values in them.

A document is twisted by putting something hostile in the place of any value in it, leaving it out, or giving its key
twice. What JSON has and Python has not, a number of a million digits or half a surrogate, is put in as bytes.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

Path = tuple[str | int, ...]


class Raw:
    """A value as it stands on the wire."""

    def __init__(self, text: str | bytes) -> None:
        self.body = text.encode() if isinstance(text, str) else text

    def __repr__(self) -> str:
        return f"Raw({self.body[:40]!r}{'…' if len(self.body) > 40 else ''})"


def _nested(depth: int) -> Raw:
    return Raw('{"a":' * depth + "1" + "}" * depth)


QUANTITIES = [
    "1e999999999", "1e-999999999", "1E4294967299", "1e999", "9" * 1000, "9" * 1001, "1" + "0" * 10_000, "9" * 1_000_000,
    "0." + "0" * 1_000_000 + "1", "-1", "+1", " 5 ", "5 ", "NaN", "Infinity", "1_000", "0x10", "\u0661", "1e", "1e1e1",
    ".", "", "Ki", "9Ei", "99999999Ei", "-9Ei", "1n", "0.1n", "1ki", "1e+5", "1e--5", "1\x00", "\uff11", "1e\u0661",
]  # fmt: skip

TEXTS = [
    "",
    "\x00",
    "\n",
    "x" * 300,
    "x" * 100_000,
    "../../etc",
    "a/b/c",
    "~1~0",
    "<&>",
    "é" * 70,
    "🙂",
    "true",
    "null",
]

NUMBERS = [0, -1, 1, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400]

WIRE = [
    Raw("9" * 5000), Raw("1e999999999"), Raw("1e400"), Raw("-0"), Raw("1.5"), Raw("1.0"), Raw("1e2"), Raw("NaN"),
    Raw(r'"\ud800"'), Raw(r'"\ud83d\ude42"'), Raw(r'"\u0000"'), Raw(b'"\xff\xfe"'), Raw(b'"\xed\xa0\x80"'),
    Raw(b'"\x00"'), Raw("[" * 100_000), Raw("[" * 2000 + "]" * 2000), _nested(200), _nested(2000), Raw("nul"), Raw(""),
]  # fmt: skip

HOSTILE: list[Any] = [
    None, True, False, [], {}, [None], {"": None}, [[]], [{}], {"a": {"b": {}}}, [0] * 1000,
    {str(n): 1 for n in range(300)},
    *QUANTITIES, *TEXTS, *NUMBERS, *WIRE,
]  # fmt: skip

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(HOSTILE),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def paths(node: object, here: Path = ()) -> Iterator[Path]:
    """Where the values of a document stand, itself included."""
    yield here
    children = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from paths(child, (*here, key))


def put(document: object, path: Path, value: object) -> Any:  # noqa: ANN401 - as JSON has it
    """The document with that value in that place."""
    if not path:
        return value
    result = copy.deepcopy(document)
    node: Any = result
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return result


def without(document: object, path: Path) -> Any:  # noqa: ANN401
    """The document without what stands there."""
    result = copy.deepcopy(document)
    node: Any = result
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]
    return result


@st.composite
def twisted(draw: st.DrawFn, documents: Sequence[Any], most: int = 3) -> Any:  # noqa: ANN401
    """One of the documents, with up to so many things wrong with it."""
    document = draw(st.sampled_from(documents))
    for _ in range(draw(st.integers(0, most))):
        path = draw(st.sampled_from(list(paths(document))))
        match draw(st.sampled_from(["put", "put", "put", "any", "drop", "twice", "more"])):
            case "put":
                document = put(document, path, draw(st.sampled_from(HOSTILE)))
            case "any":
                document = put(document, path, draw(ANY_JSON))
            case "drop" if path:
                document = without(document, path)
            case "twice" if path and isinstance(path[-1], str):
                first, second = draw(st.sampled_from(HOSTILE)), draw(st.sampled_from(HOSTILE))
                key = json.dumps(path[-1]).encode()
                document = put(document, path, Raw(encode(first) + b"," + key + b":" + encode(second)))
            case "more":
                document = put(document, path, [draw(st.sampled_from(HOSTILE)), draw(st.sampled_from(HOSTILE))])
            case _:
                pass
    return document


def encode(document: object) -> bytes:
    """As it goes over the wire."""
    raw: list[bytes] = []

    def mark(value: object) -> str:
        assert isinstance(value, Raw)
        raw.append(value.body)
        return f"\x01raw{len(raw) - 1}\x01"

    body = json.dumps(document, default=mark, allow_nan=True).encode()
    for number, wire in enumerate(raw):
        body = body.replace(f'"\\u0001raw{number}\\u0001"'.encode(), wire)
    return body
