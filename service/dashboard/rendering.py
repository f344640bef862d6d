"""Renders templates to HTML."""

from collections.abc import Mapping
from typing import Any

from .environment import environment


def whole(template: str, facts: Mapping[str, Any]) -> bytes:
    """Renders a page, or a part of one that has its own template."""
    found = environment().get_template(f"{template}.html.j2")
    return found.render({"live": "live" in found.blocks, **_with_macros(facts)}).encode()


def live_part(template: str, facts: Mapping[str, Any]) -> str:
    """Renders the live part of a page; empty if it has none."""
    found = environment().get_template(f"{template}.html.j2")
    block = found.blocks.get("live")
    return "" if block is None else "".join(block(found.new_context(_with_macros(facts))))


def _with_macros(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {**facts, "m": environment().get_template("macros.html.j2").make_module(dict(facts))}
