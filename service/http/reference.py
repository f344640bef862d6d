"""The reference of every call and body as HTML, made from the same document as /openapi.json.

`/docs` serves it whole, with nothing but a stylesheet of its own: no script, no other host. The site of the documents
takes its sections (`.make/site.py`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path

import msgspec
from attrs import frozen

from ... import __version__
from .asgi import Response
from .call import Call
from .openapi import STYLE, document
from .schemas import Json

_STYLE = Path(__file__).with_name("reference.css")
_GUARD = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
_LONGEST_PATTERN = 60
"""Characters of a regular expression that a table shows; a longer one is told in words beside it."""
_BOUNDS = (("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " items"))
"""The least, the most, and of what."""
_NEXT_KIND = re.compile("; (?=[a-z-]+: )")
"""Between two kinds of problems of one status."""


@frozen
class Section:
    """A call or a body."""

    anchor: str
    title: str
    """Plain text."""
    html: str


async def docs(call: Call) -> Response:
    """The reference of every call, as a page"""
    return Response(_page(), 200, "text/html; charset=utf-8", _GUARD)


async def style(call: Call) -> Response:
    """The stylesheet of that page"""
    return Response(_STYLE.read_bytes(), 200, "text/css; charset=utf-8", _GUARD)


def calls(told: Json) -> list[Section]:
    """A section for each call, in the document's order."""
    return [
        Section(operation["operationId"], f"{method.upper()} {path}", "".join(_call(operation)))
        for path, operations in told["paths"].items()
        for method, operation in operations.items()
    ]


def bodies(told: Json) -> list[Section]:
    """A section for each body that comes in or goes out, or is part of one."""
    schemas: Json = told["components"]["schemas"]
    return [Section(_anchor(name), name, "".join(_body(schema))) for name, schema in schemas.items()]


@cache
def _page() -> bytes:
    told = document()
    parts = (("Calls", calls(told)), ("Bodies", bodies(told)))
    menu = "".join(
        f"<h2>{heading}</h2><ul>{''.join(f'<li>{_link(one.anchor, one.title)}</li>' for one in sections)}</ul>"
        for heading, sections in parts
    )
    main = "".join(
        f'<section id="{escape(one.anchor)}"><h2>{_link(one.anchor, one.title)}</h2>{one.html}</section>'
        for _, sections in parts
        for one in sections
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>HTTP reference · Tarry</title><link rel="stylesheet" href="{STYLE}"></head><body>'
        '<a class="skip" href="#main">Skip to the content</a>'
        f'<nav aria-label="Calls and bodies">{menu}</nav><main id="main" tabindex="-1"><h1>HTTP reference</h1>'
        f"<p>Tarry {escape(__version__)}. Every call of this server, made from "
        '<a href="/openapi.json">/openapi.json</a>, which has the patterns of text in full. Times are RFC 3339 with a'
        ' zone. What goes wrong is answered with a <a href="#body-ProblemBody">problem</a>.</p>'
        f"{main}</main></body></html>"
    ).encode()


def _call(operation: Json) -> Iterator[str]:
    yield f"<p>{escape(operation['summary'])}.</p>"
    if "security" in operation:
        yield "<p>Wants a key, where the server asks for keys.</p>"
    if parameters := operation.get("parameters"):
        rows = [
            (
                _code(one["name"]),
                f"{one['in']}{', needed' if one['required'] else ''}",
                _type(one["schema"]),
                escape(one.get("description", "")),
            )
            for one in parameters
        ]
        yield _table("Parameters", ("name", "in", "type", "about"), rows)
    if wanted := operation.get("requestBody"):
        accepted = [(_code(media), _type(of["schema"])) for media, of in wanted["content"].items()]
        yield _table("Body" if wanted["required"] else "Body, which may be left out", ("type", "is"), accepted)
    yield _table("Answers", ("status", "means", "body"), list(_answers(operation["responses"])))


def _answers(responses: Json) -> Iterator[Sequence[str]]:
    for status, response in sorted(responses.items()):
        content = "<br>".join(
            f"{_type(of['schema'])} <small>{escape(media)}</small>" for media, of in response["content"].items()
        )
        yield _code(status), _NEXT_KIND.sub("<br>", escape(response["description"])), content


def _body(schema: Json) -> Iterator[str]:
    if about := schema.get("description"):
        yield f"<p>{escape(about)}</p>"
    needed = schema.get("required", ())
    rows: list[Sequence[str]] = []
    for name, of in schema.get("properties", {}).items():
        usual = "needed" if name in needed else ""
        if of.get("default") is not None:
            usual = f"{_code(_json(of['default']))} unless said"
        rows.append((_code(name), _type(of), usual, escape("; ".join(_abouts(of)))))
    if rows:
        yield _table("Fields", ("field", "type", "", "about"), rows)
    else:
        yield f"<p>{_type(schema)}</p>"


def _abouts(schema: Json) -> Iterator[str]:
    """What is said of it, and of what it may be."""
    if "description" in schema:
        yield schema["description"]
    for one in _choices(schema):
        yield from _abouts(one)


def _choices(schema: Json) -> list[Json]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


def _type(schema: Json) -> str:
    """In a few words, as HTML."""
    if "$ref" in schema:
        name: str = schema["$ref"].rsplit("/", 1)[-1]
        return _link(_anchor(name), name)
    if choices := _choices(schema):
        return " or ".join(dict.fromkeys(_type(one) for one in choices))
    if "enum" in schema:
        return " or ".join(_code(_json(one)) for one in schema["enum"])
    if "const" in schema:
        return _code(_json(schema["const"]))
    words: str = schema.get("type", "any JSON")
    if "items" in schema:
        words = f"list of {_type(schema['items'])}"
    elif isinstance(schema.get("additionalProperties"), Mapping):
        words = f"object, each member {_type(schema['additionalProperties'])}"
    limits = list(_limits(schema))
    pattern = schema.get("pattern", "")
    if pattern and len(pattern) <= _LONGEST_PATTERN:
        limits.append(_code(pattern))
    return f"{words} <small>{', '.join(limits)}</small>" if limits else words


def _limits(schema: Json) -> Iterator[str]:
    for least, most, of in _BOUNDS:
        low, high = schema.get(least), schema.get(most)
        if low is not None and high is not None:
            yield f"{low:,} to {high:,}{of}"
        elif low is not None:
            yield f"{low:,}{of} or more"
        elif high is not None:
            yield f"{high:,}{of} at most"


def _json(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Of cells that are HTML already."""
    head = "".join(f"<th>{one}</th>" for one in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<h3>{title}</h3><div><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"


def _anchor(schema: str) -> str:
    return f"body-{schema}"


def _link(anchor: str, text: str) -> str:
    return f'<a href="#{escape(anchor)}">{escape(text)}</a>'


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"
