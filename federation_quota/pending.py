"""Pending: what a validator refused for now, as a note on the binding that it is about.

The note lives where the wish does. A new binding, and one that grows by replicas alone, is held, with the note in that
same write; of any other change, the binding as it is carries it. So it needs no quota in the namespace, and goes when
the binding goes. It is tried again when the tenant's use falls, and at the latest when its time comes.

Reading never fails: what cannot be read is no note, and whoever is refused again is noted again.
"""

import json
from dataclasses import dataclass
from typing import Final

from federation_quota.quantity import QuantityError
from federation_quota.resources import Resources

CONDITION: Final = "QuotaPending"
"""The condition of a binding that has a note."""

# For who gives no time: somebody's budget may have been raised, of which nobody hears.
RETRY_SECONDS: Final = 60
SOONEST_SECONDS: Final = 1
LATEST_SECONDS: Final = 3600
_LONGEST_MESSAGE: Final = 1024


@dataclass(frozen=True, slots=True)
class Pending:
    """One refusal."""

    validator: str
    message: str
    at: str
    """When it was refused last, for people; and it tells one refusal from the next."""
    since: str
    """When it was refused first."""
    retry_seconds: int
    """After how long it is tried again, by the clock of whoever has seen the note since."""
    charge: Resources
    """All that it would cost."""
    template_version: int
    """Of the template as it was refused."""

    def encode(self) -> str:
        """The annotation's text."""
        fields = {
            "validator": self.validator,
            "message": self.message[:_LONGEST_MESSAGE],
            "at": self.at,
            "since": self.since,
            "retrySeconds": self.retry_seconds,
            "charge": self.charge.to_json(),
            "template": str(self.template_version),
        }
        return json.dumps(fields, separators=(",", ":"))

    @property
    def said(self) -> str:
        """What the condition says."""
        return f"validator {self.validator}: {self.message}"

    def is_over(self, charge: Resources, template_version: int) -> bool:
        """Whether a binding that costs that, and is in line with that template, no longer waits for it."""
        is_granted = all(charge[name] >= amount for name, amount in self.charge.items())
        return is_granted or template_version > self.template_version


def decode(text: str | None) -> Pending | None:
    """The note in an annotation's text; None where there is none, or none that can be read."""
    if text is None:
        return None
    try:
        fields = json.loads(text)
        validator, message, at, since = said = [fields[name] for name in ("validator", "message", "at", "since")]
        retry, charge, version = fields["retrySeconds"], Resources.parse(fields["charge"]), int(fields["template"])
        if not all(isinstance(one, str) for one in said) or type(retry) is not int:
            return None
    except (ValueError, KeyError, TypeError, AttributeError, QuantityError, RecursionError):
        return None
    return Pending(validator, message, at, since, retry_seconds(retry), charge, version)


def retry_seconds(wanted: float | None) -> int:
    """After how long to try again what a validator wants to be asked about then."""
    if wanted is None or wanted != wanted:  # noqa: PLR0124 - not a number
        return RETRY_SECONDS
    return int(min(max(wanted, SOONEST_SECONDS), LATEST_SECONDS))
