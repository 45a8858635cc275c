"""What is wrong with one field of an object, said the way Kubernetes says it.

`spec.hard[foo]: Invalid value: "foo": must be a standard resource for quota` is what people and tools already read
from the API server, and the cause beside it is what programs look at. Whatever a client wrote is repeated escaped and
cut: a message is short and one line, however large and strange the object was.

Never here: the rules themselves. Called by every validation.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

# A name of the longest kind is shown whole: 253 characters, a slash, 63 more.
_LONGEST_ECHO: Final = 320
_MOST_SHOWN: Final = 20


class ErrorKind(Enum):
    """What kind of wrong: as the text has it, and as a StatusCause does."""

    INVALID = ("Invalid value", "FieldValueInvalid")
    REQUIRED = ("Required value", "FieldValueRequired")
    NOT_SUPPORTED = ("Unsupported value", "FieldValueNotSupported")
    FORBIDDEN = ("Forbidden", "FieldValueForbidden")

    @property
    def phrase(self) -> str:
        """The words in a message."""
        return self.value[0]

    @property
    def reason(self) -> str:
        """The `reason` of a StatusCause."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong: where, of what kind, what stood there, and what would be right."""

    path: str
    kind: ErrorKind
    value: object
    detail: str

    @property
    def body(self) -> str:
        """Everything but the path."""
        # What is missing has no value, and what is forbidden would be so with any.
        has_value = self.kind in (ErrorKind.INVALID, ErrorKind.NOT_SUPPORTED)
        shown = f": {echo(self.value)}" if has_value else ""
        return f"{self.kind.phrase}{shown}: {self.detail}"

    def to_cause(self) -> dict[str, str]:
        """The StatusCause for `status.details.causes`."""
        return {"reason": self.kind.reason, "message": self.body, "field": self.path}

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


def not_supported(path: str, value: object, supported: Sequence[str]) -> FieldError:
    """None of the values that the field knows."""
    listed = ", ".join(f'"{known}"' for known in supported)
    return FieldError(path, ErrorKind.NOT_SUPPORTED, value, f"supported values: {listed}")


def at_key(path: str, key: str) -> str:
    """The path of a map's entry: `spec.hard[cpu]`."""
    is_plain = key.isascii() and key.isprintable() and len(key) <= _LONGEST_ECHO
    return f"{path}[{key if is_plain else echo(key)}]"


def summarise(errors: Sequence[FieldError]) -> str:
    """All of them as the API server joins them: one bare, several in brackets."""
    shown = [str(error) for error in errors[:_MOST_SHOWN]]
    if len(errors) > _MOST_SHOWN:
        shown.append(f"and {len(errors) - _MOST_SHOWN} more")
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"


def echo(value: object) -> str:
    """What was given, as a message repeats it: quoted, escaped, and short whatever it was."""
    if isinstance(value, str):
        cut = value[:_LONGEST_ECHO]
        return json.dumps(cut) + ("..." if cut != value else "")
    if isinstance(value, bool | int | float | None):
        return json.dumps(value)
    if isinstance(value, list):
        shown = ",".join(echo(item) for item in value[:_MOST_SHOWN] if not isinstance(item, list))
        return f"[{shown}]" if len(value) <= _MOST_SHOWN else f"[{shown},...]"
    return "{...}"
