"""What a page is: what its template is told; and what an action says when it is done."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from .tables import Table
from .visit import Visit


@frozen
class Page:
    """What a page shows."""

    template: str
    title: str
    facts: Mapping[str, Any] = field(factory=dict[str, Any])
    tables: Sequence[Table] = ()
    """Those of them that are downloaded as CSV, by name."""


@frozen
class Elsewhere:
    """Another page."""

    address: str


@frozen
class Confirm:
    """What is done once it is said a second time."""

    label: str
    fields: Sequence[tuple[str, str]] = ()


@frozen
class Said:
    """What an action tells the visitor."""

    text: str
    good: bool = True
    confirm: Confirm | None = None
    link: tuple[str, str] | None = None
    """An address, and its words."""


@frozen
class Part:
    """A part of a page, which comes in place of itself."""

    template: str
    facts: Mapping[str, Any]


Show = Callable[[Visit], Awaitable[Page | Elsewhere]]
Act = Callable[[Visit], Awaitable[Said | Part | Elsewhere]]


@frozen
class Route:
    """A page by its address, and what may be done there."""

    path: str
    show: Show | None = None
    acts: Mapping[str, Act] = field(factory=dict[str, Act])
    """By the last part of the address to which a form is sent."""
