"""Validates the part of JSON Schema 2020-12 that /openapi.json uses; an unknown keyword is an error."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from tarry.service.http.openapi import document

Schema = Mapping[str, Any]

_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_SAID = {"writeOnly", "title", "description", "default", "contentEncoding"}
"""Keywords that restrict nothing."""


def fits(value: Any, schema: Schema) -> bool:
    """Whether the schema allows the value. Raises `LookupError` for an unknown keyword."""
    return all(_holds(value, word, schema) for word in schema if word not in _SAID)


def _holds(value: Any, word: str, schema: Schema) -> bool:
    told = schema[word]
    if word == "$ref":
        return fits(value, document()["components"]["schemas"][told.rpartition("/")[2]])
    if word == "type":
        return _TYPES[told](value)
    if word in _COMBINED:
        return _COMBINED[word](value, told)
    kind, holds = _OF_A_TYPE[word]
    return not isinstance(value, kind) or isinstance(value, bool) or holds(value, told, schema)


_COMBINED: dict[str, Callable[[Any, Any], bool]] = {
    "enum": lambda value, told: value in told,
    "not": lambda value, told: not fits(value, told),
    "allOf": lambda value, told: all(fits(value, one) for one in told),
    "anyOf": lambda value, told: any(fits(value, one) for one in told),
    "oneOf": lambda value, told: sum(fits(value, one) for one in told) == 1,
}
_OF_A_TYPE: dict[str, tuple[Any, Callable[[Any, Any, Schema], bool]]] = {
    "minimum": (int | float, lambda value, told, _: value >= told),
    "maximum": (int | float, lambda value, told, _: value <= told),
    "minLength": (str, lambda value, told, _: len(value) >= told),
    "maxLength": (str, lambda value, told, _: len(value) <= told),
    # In JavaScript `$` is the very end, not the place before a final newline.
    "pattern": (str, lambda value, told, _: re.search(re.sub(r"\$$", r"\\Z", told), value) is not None),
    "minItems": (list, lambda value, told, _: len(value) >= told),
    "maxItems": (list, lambda value, told, _: len(value) <= told),
    "items": (list, lambda value, told, _: all(fits(item, told) for item in value)),
    "required": (dict, lambda value, told, _: all(name in value for name in told)),
    "properties": (dict, lambda value, told, _: all(fits(value[n], s) for n, s in told.items() if n in value)),
    "propertyNames": (dict, lambda value, told, _: all(fits(name, told) for name in value)),
    "additionalProperties": (dict, lambda value, told, schema: all(_fits_rest(n, value, told, schema) for n in value)),
}


def _fits_rest(name: str, value: dict[str, Any], told: Any, schema: Schema) -> bool:
    if name in schema.get("properties", {}):
        return True
    return told if isinstance(told, bool) else fits(value[name], told)
