"""Renders templates to HTML; every text is escaped."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ... import __version__
from . import words
from .routes import NAVIGATION

_FOLDER = Path(__file__).parent / "templates"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "number": words.number,
        "short": words.short,
        "duration": words.duration,
        "ladder": words.ladder,
        "moment": words.moment,
        "local": words.local,
        "urlencode_pairs": urlencode,
    }
    environment.filters.update(filters)  # pyright: ignore[reportUnknownMemberType] - without types
    known: dict[str, Any] = {"version": __version__, "navigation": NAVIGATION}
    environment.globals.update(known)  # pyright: ignore[reportUnknownMemberType] - without types
    return environment


def whole(template: str, facts: Mapping[str, Any]) -> bytes:
    """Renders a page, or a part of one that has its own template."""
    found = _environment().get_template(f"{template}.html.j2")
    return found.render({"live": "live" in found.blocks, **_with_macros(facts)}).encode()


def live_part(template: str, facts: Mapping[str, Any]) -> str:
    """Renders the live part of a page; empty if it has none."""
    found = _environment().get_template(f"{template}.html.j2")
    block = found.blocks.get("live")
    return "" if block is None else "".join(block(found.new_context(_with_macros(facts))))


def _with_macros(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {**facts, "m": _environment().get_template("macros.html.j2").make_module(dict(facts))}
