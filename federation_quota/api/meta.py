"""What the kinds of the API have in common: the group, the base of all models, and the types of their fields.

Never here: a kind. Called by the modules of the kinds.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictInt, StrictStr, WithJsonSchema
from pydantic.alias_generators import to_camel

from federation_quota.bounds import LONGEST_AMOUNT, LONGEST_LIMIT, LONGEST_NAME, LONGEST_UID, MOST_RESOURCES
from federation_quota.validation import NOT_NEGATIVE

GROUP: Final = "quota.karmada.io"
VERSION: Final = "v1alpha1"
# `kubectl get karmada-io` lists what belongs to Karmada.
CATEGORY: Final = "karmada-io"

ATOMIC_MAP: Final[dict[str, Any]] = {"x-kubernetes-map-type": "atomic"}


# As `quantity` reads it, with digits; exponents are kept to what is not absurd.
_QUANTITY: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,4})?$"


def rules(*pairs: tuple[str, str], **more: str) -> dict[str, Any]:
    """CEL rules, each with the message for what breaks it; `more` goes into every one of them."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message, **more} for rule, message in pairs]}


def atomic_list(most: int) -> Any:  # noqa: ANN401 # what stands as a field's default has the field's type
    """A list that may be absent, of at most so many items, and is written as a whole."""
    return Field(default_factory=list, max_length=most, json_schema_extra={"x-kubernetes-list-type": "atomic"})


def filled_in(model: type[BaseModel]) -> Any:  # noqa: ANN401 # as above
    """An object that the API server makes where it is absent, with the defaults of its fields."""
    return Field(default_factory=model, json_schema_extra={"default": {}})


def _int_or_string(**more: object) -> WithJsonSchema:
    # Without the customary `anyOf`, which says nothing more and makes five errors of one.
    return WithJsonSchema({"x-kubernetes-int-or-string": True, **more})


# Rules rather than a pattern: what a user mistyped is answered in words, not with a regular expression.
Limit = Annotated[
    StrictInt | StrictStr,
    _int_or_string(
        nullable=True,
        maxLength=LONGEST_LIMIT,
        **rules(
            (
                f"type(self) == int || self.matches(r'{_QUANTITY}')",
                "must be a quantity: a decimal number with at most one suffix out of n u m k M G T P E, "
                "Ki Mi Gi Ti Pi Ei, or an exponent such as e3; for example 2, 500m, 1.5Gi",
            ),
            ("type(self) == int ? self >= 0 : !self.startsWith('-')", NOT_NEGATIVE),
        ),
    ),
]
Amount = Annotated[StrictInt | StrictStr, _int_or_string(maxLength=LONGEST_AMOUNT, pattern=_QUANTITY)]
# Nullable above, and refused here: the API server would drop a null silently, and with it the limit.
Limits = Annotated[
    dict[str, Limit],
    Field(
        max_length=MOST_RESOURCES,
        json_schema_extra=rules(
            ("self.all(name, self[name] != null)", "must not have null for a limit: 0 allows none")
        ),
    ),
]
# In a list there is no room for rules: the webhook says in words what is wrong, nulls included.
ListedLimits = Annotated[
    dict[str, Annotated[StrictInt | StrictStr, _int_or_string(nullable=True, maxLength=LONGEST_LIMIT)]],
    Field(max_length=MOST_RESOURCES, json_schema_extra=ATOMIC_MAP),
]
Amounts = Annotated[dict[str, Amount], Field(max_length=MOST_RESOURCES, json_schema_extra=ATOMIC_MAP)]
Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Uid = Annotated[str, Field(max_length=LONGEST_UID)]
ResourceVersion = Annotated[str, Field(max_length=128)]
Time = AwareDatetime


class Model(BaseModel):
    """The base of everything in the API: frozen, camelCase on the wire, docstrings as descriptions."""

    model_config = ConfigDict(
        defer_build=True,  # most programs name these types, and never read one: a third of a second at each start
        alias_generator=to_camel,
        frozen=True,
        use_attribute_docstrings=True,
        validate_by_alias=True,
        validate_by_name=True,
    )


class Condition(Model):
    """One aspect of the object's state, as in every Kubernetes API."""

    type: Annotated[str, Field(max_length=316, min_length=1)]
    """What the condition is about, in CamelCase."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=1024, min_length=1, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why, as one CamelCase word for programs."""
    message: Annotated[str, Field(max_length=32768)]
    """Why, for people."""
    last_transition_time: Time
    """When the status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that it was found for."""


Conditions = Annotated[
    list[Condition],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
