"""Describes in a few words what a JSON schema allows: the types of /openapi.json, for people. Pure.

It knows nothing of HTML: `reference` renders it.
"""

from collections.abc import Iterator, Mapping

import msgspec
from attrs import frozen

from .schemas import Json

_LONGEST_PATTERN = 60
"""Characters of a regular expression that is shown; for a longer one there are words beside it."""
_BOUNDS = (("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " items"))
"""The keyword of the lower bound, that of the upper bound, and the unit."""


@frozen
class Kind:
    """The kind of a value: a choice of several kinds, a named body, or the kind that `words` describe."""

    choices: tuple["Kind", ...] = ()
    body: str = ""
    words: str = ""
    is_value: bool = False
    """Whether the words are the value itself."""
    inner: "Kind | None" = None
    """The kind of its items, or of its members."""
    limits: tuple[str, ...] = ()
    pattern: str = ""


def kind_of(schema: Json) -> Kind:
    """The kind of the values that the schema allows."""
    if "$ref" in schema:
        return Kind(body=schema["$ref"].rsplit("/", 1)[-1])
    if choices := _choices(schema):
        return Kind(tuple(dict.fromkeys(kind_of(one) for one in choices)))
    if "enum" in schema:
        return Kind(tuple(Kind(words=as_text(one), is_value=True) for one in schema["enum"]))
    if "const" in schema:
        return Kind(words=as_text(schema["const"]), is_value=True)
    words: str = schema.get("type", "any JSON")
    inner = None
    if "items" in schema:
        words, inner = "list of ", kind_of(schema["items"])
    elif isinstance(schema.get("additionalProperties"), Mapping):
        words, inner = "object, each member ", kind_of(schema["additionalProperties"])
    pattern = schema.get("pattern", "")
    shown = pattern if len(pattern) <= _LONGEST_PATTERN else ""
    return Kind(words=words, inner=inner, limits=tuple(_limits(schema)), pattern=shown)


def abouts(schema: Json) -> Iterator[str]:
    """The descriptions of the schema and of its alternatives."""
    if "description" in schema:
        yield schema["description"]
    for one in _choices(schema):
        yield from abouts(one)


def as_text(value: object) -> str:
    """A string as it is, any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _choices(schema: Json) -> list[Json]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


def _limits(schema: Json) -> Iterator[str]:
    for least, most, of in _BOUNDS:
        low, high = schema.get(least), schema.get(most)
        if low is not None and high is not None:
            yield f"{low:,} to {high:,}{of}"
        elif low is not None:
            yield f"{low:,}{of} or more"
        elif high is not None:
            yield f"{high:,}{of} at most"
