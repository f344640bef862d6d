"""The reference of every call and body as HTML, made from the same document as /openapi.json.

`/docs` serves it whole, with its own stylesheet and nothing else: no script, no other host. The documentation site uses
its sections (`.make/site.py`). This file gathers the content; the templates beside it hold the layout.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import trio
from attrs import frozen
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from ... import __version__
from .asgi import Response
from .call import Call
from .kinds import Kind, abouts, as_text, kind_of
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


@frozen
class _Parameter:
    name: str
    place: str
    kind: Kind
    about: str


@frozen
class _Answer:
    status: str
    means: list[str]
    content: list[tuple[str, Kind]]


@frozen
class _Field:
    name: str
    kind: Kind
    needed: bool
    unless_said: str | None
    about: str


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
        Section(operation["operationId"], f"{method.upper()} {path}", _call(operation))
        for path, operations in told["paths"].items()
        for method, operation in operations.items()
    ]


def bodies(told: Json) -> list[Section]:
    """A section for each body of a request or an answer, or part of one."""
    schemas: Json = told["components"]["schemas"]
    return [Section(f"body-{name}", name, _body(schema)) for name, schema in schemas.items()]


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
    return environment.get_template(f"{name}.html.j2")


def _part(macro: str, **facts: object) -> str:
    return str(getattr(_template("reference_section").module, macro)(**facts))


def _call(operation: Json) -> str:
    wanted = operation.get("requestBody", {})
    return _part(
        "call_section",
        summary=operation["summary"],
        key="security" in operation,
        parameters=[
            _Parameter(
                one["name"],
                f"{one['in']}{', needed' if one['required'] else ''}",
                kind_of(one["schema"]),
                one.get("description", ""),
            )
            for one in operation.get("parameters", ())
        ],
        body_title="Body" if wanted.get("required") else "Body, which may be left out",
        accepted=_kinds(wanted.get("content", {})),
        answers=[
            _Answer(status, _NEXT_KIND.split(response["description"]), _kinds(response["content"]))
            for status, response in sorted(operation["responses"].items())
        ],
    )


def _kinds(content: Json) -> list[tuple[str, Kind]]:
    """The kinds of the bodies, each with its media type."""
    return [(media, kind_of(of["schema"])) for media, of in content.items()]


def _body(schema: Json) -> str:
    return _part(
        "body_section", about=schema.get("description", ""), whole=kind_of(schema), fields=list(_fields(schema))
    )


def _fields(schema: Json) -> Iterator[_Field]:
    needed = schema.get("required", ())
    for name, of in schema.get("properties", {}).items():
        default = of.get("default")
        unless_said = None if default is None else as_text(default)
        yield _Field(name, kind_of(of), name in needed, unless_said, "; ".join(abouts(of)))
