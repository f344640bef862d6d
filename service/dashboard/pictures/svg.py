"""Draws SVG: each picture has a template of its own, which this renders. Every text is escaped."""

from functools import cache
from math import log1p
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .. import words

_FOLDER = Path(__file__).parent.parent / "templates"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({"dot": _dot})  # pyright: ignore[reportUnknownMemberType] - without types
    known: dict[str, Any] = {"bodied": words.bodied, "number": words.number, "short": words.short, "log1p": log1p}
    environment.globals.update(known)  # pyright: ignore[reportUnknownMemberType] - without types
    return environment


def draw(picture: str, width: int, height: int, about: str, **facts: object) -> Markup:
    """The picture of this name; a screen reader reads `about`."""
    template = _environment().get_template(f"{picture}.svg.j2")
    drawn = template.render(picture=picture, width=width, height=height, about=about, **facts)
    return Markup(drawn)  # noqa: S704 - the template has escaped it


def _dot(value: object) -> object:
    """A coordinate, with one digit behind the dot."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value
