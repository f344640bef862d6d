"""The reference of every call and body as HTML, made from the same document as /openapi.json.

`/docs` serves it whole, with its own stylesheet and nothing else: no script, no other host. The documentation site uses
its sections (`.make/site.py`). The templates beside it hold the layout, and pick what they show.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import trio
from attrs import frozen
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from ... import __version__
from .asgi import Response
from .call import Call
from .openapi import STYLE, document
from .schemas import Json
from .server.ports import Kept

_FOLDER = Path(__file__).parent
_STYLE = _FOLDER / "reference.css"
_GUARD = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
_NEXT_KIND = re.compile("; (?=[a-z-]+: )")
"""Separates the kinds of problems of one status."""


@frozen
class Section:
    anchor: str
    title: str
    """Plain text."""
    html: str


async def docs(call: Call) -> Response:
    """The reference of every call, as a page"""
    # To render it the first time takes a moment, in which the event loop must not stand still.
    page = await trio.to_thread.run_sync(_page)
    return Response(page, 200, "text/html; charset=utf-8", _GUARD)


async def style(call: Call) -> Response:
    """The stylesheet of that page"""
    return Response(_style(), 200, "text/css; charset=utf-8", _GUARD)


def calls(told: Json) -> list[Section]:
    """A section for each call, in the document's order."""
    return [
        Section(operation["operationId"], f"{method.upper()} {path}", _part("call_section", operation))
        for path, operations in told["paths"].items()
        for method, operation in operations.items()
    ]


def bodies(told: Json) -> list[Section]:
    """A section for each body of a request or an answer, or part of one."""
    schemas: Json = told["components"]["schemas"]
    return [Section(f"body-{name}", name, _part("body_section", schema)) for name, schema in schemas.items()]


@cache
def _style() -> Kept:
    return Kept(_STYLE.read_bytes())


@cache
def _page() -> Kept:
    told = document()
    parts = (("Calls", calls(told)), ("Bodies", bodies(told)))
    return Kept(_template("reference").render(parts=parts, version=__version__, style=STYLE).encode())


@cache
def _template(name: str) -> Template:
    loader = FileSystemLoader(_FOLDER)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    filters: dict[str, Any] = {"abouts": _abouts, "as_text": _as_text, "meanings": _NEXT_KIND.split}
    environment.filters.update(filters)  # pyright: ignore[reportUnknownMemberType] - without types
    return environment.get_template(f"{name}.html.j2")


def _part(macro: str, of: Json) -> str:
    return str(getattr(_template("reference_section").module, macro)(of))


def _abouts(schema: Json) -> Iterator[str]:
    """The descriptions of the schema and of its alternatives."""
    if "description" in schema:
        yield schema["description"]
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _abouts(one)


def _as_text(value: object) -> str:
    """A string as it is, any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
