"""Values for every attribute that a message may have beside its body, and the attributes that came back."""

from typing import Any

from tarry.store.content import ATTRIBUTES, NUMBERS, Attributes


def one_of(name: str, at: int) -> Any:
    """A value that the store accepts for the attribute; for times, `at`."""
    if name in NUMBERS:
        return at
    return {"headers": b'{"a":"b"}', "content_type": "x/y"}.get(name, f"the {name} 🐢")


def each(at: int) -> list[dict[str, Any]]:
    """Sets of attributes: each alone, so that no other one changes the statement; all together; none."""
    return [*({name: one_of(name, at)} for name in ATTRIBUTES), {name: one_of(name, at) for name in ATTRIBUTES}, {}]


def attributes(of: Attributes) -> dict[str, Any]:
    """The attributes that it has."""
    return {name: value for name in ATTRIBUTES if (value := getattr(of, name)) is not None}
