"""Rewords msgspec's errors about fields: in the terms of JSON instead of Python's, and with the complete rule."""

import re
from collections.abc import Sequence

import msgspec.inspect

_OTHER_TYPE = re.compile(r"Expected `(?P<took>[a-z |]+)`, got `(?P<got>[a-z]+)`")
_BOUND = re.compile(
    r"Expected `(?P<type>array|str|object|int|float)` (?P<of>of length )?(?P<sign>[<>]=) (?P<bound>\S+)"
)
_NAMES = {
    "int": ("a whole number",),
    "float": ("a number",),
    "str": ("a string",),
    "bytes": ("a string of base64",),
    "bool": ("true", "false"),
    "array": ("an array",),
    "object": ("an object",),
}
_GOT = {"float": "a number with a fraction", "bool": "true or false"}
_PARTS = {"array": "item", "str": "character", "object": "member"}


def rule_of(said: str, types: Sequence[msgspec.inspect.Type]) -> str | None:
    """The rule of a field with these types, from msgspec's message; None if its own words will do."""
    if other := _OTHER_TYPE.fullmatch(said):
        *others, last = [name for type_ in other["took"].split(" | ") for name in _NAMES.get(type_, (type_,))]
        took = f"{', '.join(others)} or {last}" if others else last
        got = _GOT.get(other["got"], _NAMES.get(other["got"], (other["got"],))[0])
        return f"it must be {took}, not {got}"
    if "matching regex" in said:
        return "it is no id of a message: digits, 19 at most, as a string"
    for inner in types:
        if isinstance(inner, msgspec.inspect.LiteralType) and said.startswith("Invalid enum value"):
            return f"{said.removeprefix('Invalid enum value ')} is not one of {', '.join(map(str, inner.values))}"
        if isinstance(inner, msgspec.inspect.IntType) and None not in (inner.ge, inner.le) and _BOUND.match(said):
            return f"it must be a whole number from {inner.ge} to {inner.le}"
        if isinstance(inner, msgspec.inspect.ListType) and inner.min_length and inner.min_length == inner.max_length:
            return f"it must have {inner.min_length} items"
    if bound := _BOUND.fullmatch(said):
        many, side = bound["bound"].removesuffix(".0"), "at the least" if bound["sign"] == ">=" else "at most"
        if bound["of"]:
            return f"it must have {many} {_PARTS[bound['type']] + 's' * (many != '1')} {side}"
        return f"it must be {_NAMES[bound['type']][0]}, {many} {side}"
    return None
