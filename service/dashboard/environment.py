"""The environment of all templates, of pages and of pictures; every text is escaped."""

from functools import cache
from math import log1p
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ... import __version__
from . import words

_FOLDER = Path(__file__).parent / "templates"


@cache
def environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    told = ("number", "short", "duration", "ladder", "moment", "local")
    filters: dict[str, Any] = {name: getattr(words, name) for name in told}
    filters |= {"dot": _dot, "urlencode_pairs": urlencode}
    environment.filters.update(filters)  # pyright: ignore[reportUnknownMemberType] - without types
    known: dict[str, Any] = {"version": __version__, "bodied": words.bodied, "log1p": log1p}
    environment.globals.update(known)  # pyright: ignore[reportUnknownMemberType] - without types
    return environment


def _dot(value: object) -> object:
    """A coordinate, with one digit behind the dot."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value
