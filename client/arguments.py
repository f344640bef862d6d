"""Checks the arguments of users, and converts them for requests."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from .durations import Duration, duration_out
from .records import Claim, Named, id_of

T = TypeVar("T")


def claim_id(claim: Claim | str) -> str:
    """The id of a claim."""
    return claim.id if isinstance(claim, Claim) else claim


def claim_place(claim: Claim | str) -> tuple[str, str] | None:
    """Topic and group of a claim; None if only its id is known."""
    return (claim.topic, claim.group) if isinstance(claim, Claim) else None


def ids(messages: Iterable[Named] | None) -> list[str] | None:
    """The ids of messages; None means all."""
    return None if messages is None else [id_of(message) for message in _listed("ids", messages)]


def tags(tags: Sequence[str] | None) -> tuple[str, ...] | None:
    """The tags of messages; None means any."""
    return None if tags is None else tuple(_listed("tags", tags))


def _listed(name: str, values: T) -> T:
    """Refuses a text, which would be taken for a list of its letters."""
    if isinstance(values, str):
        raise ValueError(f"{name} is a list, such as [{values!r}]")
    return values


def at_least_one(**numbers: int) -> None:
    """Refuses numbers below 1: with them nothing would ever be done, and no error would say so."""
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{name} is 1 or more, not {number}")


_DEFAULT = object()
"""Stands for `null` in a request."""


def or_default(value: Any, write: Callable[[Any], Any]) -> Any:
    """A setting for a request; None leaves it unchanged, `"default"` resets it."""
    return None if value is None else _DEFAULT if value == "default" else write(value)


def rungs(ladder: Sequence[Duration]) -> list[int | str]:
    """A ladder for a request."""
    return [duration_out(rung, "ladder") for rung in _listed("ladder", ladder)]


def retention(duration: Duration) -> int | str:
    """A retention for a request."""
    return duration_out(duration, "retention")


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without those that are None; `_DEFAULT` becomes None."""
    return {name: None if value is _DEFAULT else value for name, value in settings.items() if value is not None}
