"""Values for whatever a message may have beside its body, made of the declaration, and what came out again."""

from typing import Any

from tarry.store.content import ATTRIBUTES, NUMBERS, Attributes


def one_of(name: str, at: int) -> Any:
    """A value as the store takes it; of a time this one."""
    if name in NUMBERS:
        return at
    return {"headers": b'{"a":"b"}', "content_type": "x/y"}.get(name, f"the {name} 🐢")


def each(at: int) -> list[dict[str, Any]]:
    """Each by itself, so that no other makes a statement of its own for it; all together; none."""
    return [*({name: one_of(name, at)} for name in ATTRIBUTES), {name: one_of(name, at) for name in ATTRIBUTES}, {}]


def attributes(of: Attributes) -> dict[str, Any]:
    """Those that it has."""
    return {name: value for name in ATTRIBUTES if (value := getattr(of, name)) is not None}
