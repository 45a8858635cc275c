"""From the models of an API to its CustomResourceDefinition: what the API server accepts, and nothing looser.

pydantic describes a model in JSON Schema; an API server takes *structural* OpenAPI v3: no references, a type
everywhere, unions only as int-or-string. Whatever has no structural form is an error here, named by its path, so that
no rule of a model is ever lost on the way.

A field that may be absent is `X | None = None` in a model: it is not required, and the API server drops a null. A
default is what the API server writes where the field is absent; a `default_factory` is the model's alone.

Never here: any particular kind, files, API servers. Called by `hack/crds.py` and by whoever installs the definitions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel

Schema = dict[str, Any]

_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_NULL: Final = {"type": "null"}
# Words that stand for themselves on both sides. `title` is dropped, the others are dealt with by name.
_KEPT: Final = frozenset(
    {
        "default", "description", "enum", "format", "maxItems", "maxLength", "maxProperties", "maximum", "minItems",
        "minLength", "minProperties", "minimum", "nullable", "pattern", "required", "type", _INT_OR_STRING,
        "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-validations",
    }
)  # fmt: skip
# What every object has; the API server knows the rest of it.
_COMMON: Final = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}


class SchemaError(ValueError):
    """A model that no structural schema can describe."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; those with a priority above 0 only with `-o wide`."""

    name: str
    path: str
    description: str = ""
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    priority: int = 0

    def to_json(self) -> dict[str, Any]:
        """As `additionalPrinterColumns` has it."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            column["description"] = self.description
        if self.priority:
            column["priority"] = self.priority
        return column


AGE: Final = Column("Age", ".metadata.creationTimestamp", type="date")


@dataclass(frozen=True, slots=True)
class CustomResource:
    """A kind of the API: its model, and the names it goes by."""

    model: type[BaseModel]
    group: str
    version: str
    plural: str
    scope: Literal["Namespaced", "Cluster"]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = (AGE,)

    @property
    def kind(self) -> str:
        """The kind's name: the model's."""
        return self.model.__name__

    @property
    def name(self) -> str:
        """The definition's name."""
        return f"{self.plural}.{self.group}"

    def definition(self) -> dict[str, Any]:
        """The CustomResourceDefinition, ready to apply."""
        names = {
            "kind": self.kind,
            "listKind": f"{self.kind}List",
            "plural": self.plural,
            "singular": self.kind.lower(),
            "shortNames": list(self.short_names),
            "categories": list(self.categories),
        }
        schema = structural(self.model)
        version = {
            "name": self.version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "additionalPrinterColumns": [column.to_json() for column in self.columns],
            "schema": {"openAPIV3Schema": {**schema, "properties": {**_COMMON, **schema["properties"]}}},
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": self.group,
                "names": {key: value for key, value in names.items() if value},
                "scope": self.scope,
                "versions": [version],
            },
        }


def structural(model: type[BaseModel]) -> Schema:
    """The model's structural schema; SchemaError where it has none."""
    described = model.model_json_schema(by_alias=True)
    return _structural(described, described.get("$defs", {}), model.__name__, ())


def _structural(node: Mapping[str, Any], models: Mapping[str, Any], path: str, inside: tuple[str, ...]) -> Schema:
    if "$ref" in node:
        name = node["$ref"].removeprefix("#/$defs/")
        if name in inside:
            raise SchemaError(f"{path}: {name} contains itself, and a structural schema is finite")
        return _structural(_merge(models[name], node, path), models, path, (*inside, name))
    if "anyOf" in node and _NULL in node["anyOf"]:
        return _structural(_without_null(node, path), models, path, inside)
    schema: Schema = {}
    for word, value in node.items():
        if word == "properties":
            schema[word] = {name: _structural(field, models, f"{path}.{name}", inside) for name, field in value.items()}
        elif word == "items" or (word == "additionalProperties" and isinstance(value, Mapping)):
            schema[word] = _structural(value, models, f"{path}[]", inside)
        elif word == "const":
            schema["enum"] = [value]
        elif word in _KEPT:
            schema[word] = _one_line(value) if word == "description" else value
        elif word not in ("$defs", "title"):
            raise SchemaError(f"{path}: {word} has no place in a structural schema")
    if "type" not in schema and _INT_OR_STRING not in schema:
        raise SchemaError(f"{path}: has no type")
    if schema.get("type") == "integer":
        schema.setdefault("format", "int64")
    return schema


def _merge(model: Mapping[str, Any], field: Mapping[str, Any], path: str) -> Schema:
    """A field that is a model: its own description and default stand before the model's; nothing else may clash."""
    own = {word: value for word, value in field.items() if word != "$ref"}
    clashing = own.keys() & model.keys() - {"default", "description", "title"}
    if clashing:
        raise SchemaError(f"{path}: {', '.join(sorted(clashing))} stands on the field and on its model")
    return {**model, **own}


def _without_null(node: Mapping[str, Any], path: str) -> Schema:
    """What may be absent: pydantic calls it a union with null, Kubernetes leaves it out of `required`."""
    alternatives = [alternative for alternative in node["anyOf"] if alternative != _NULL]
    if len(alternatives) != 1 or node.get("default") is not None:
        raise SchemaError(f"{path}: a union has no structural form, except with None as its default")
    return {**alternatives[0], **{word: value for word, value in node.items() if word not in ("anyOf", "default")}}


def _one_line(text: str) -> str:
    """As `kubectl explain` wraps it: paragraphs stay, the line breaks of the source go."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
