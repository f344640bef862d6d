"""The types that pages and actions return: what a template shows, and what an action answers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from .tables import Table
from .visit import Visit


@frozen
class Page:
    """A page: its template and the facts that it shows."""

    template: str
    title: str
    facts: Mapping[str, Any] = field(factory=dict[str, Any])
    tables: Sequence[Table] = ()
    """The tables that can be downloaded as CSV, by name."""


@frozen
class Elsewhere:
    address: str


@frozen
class Confirm:
    label: str
    fields: Sequence[tuple[str, str]] = ()


@frozen
class Said:
    text: str
    good: bool = True
    confirm: Confirm | None = None
    link: tuple[str, str] | None = None
    """An address, and the text of its link."""


@frozen
class Part:
    """A part of a page, rendered anew, which replaces the old one."""

    template: str
    facts: Mapping[str, Any]


Show = Callable[[Visit], Awaitable[Page | Elsewhere]]
Act = Callable[[Visit], Awaitable[Said | Part | Elsewhere]]


@frozen
class Route:
    """A page's address, and the actions that may be done there."""

    path: str
    show: Show | None = None
    acts: Mapping[str, Act] = field(factory=dict[str, Act])
    """Actions by the last part of the address to which their form is sent."""
