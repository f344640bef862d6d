"""Builds SVG elements with escaped texts, for all drawings."""

from collections.abc import Iterable

from markupsafe import Markup, escape


def element(name: str, content: str = "", **attributes: object) -> Markup:
    """An element. In names of attributes `_` becomes a hyphen, and is dropped at the end; attributes that are None are
    left out."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{said}>{content}</{name}>")  # noqa: S704 - attributes are escaped, content is made here


def text(said: str, x: float, y: float, **attributes: object) -> Markup:
    return element("text", str(escape(said)), x=x, y=y, **attributes)


def titled(shape: str, title: str, **attributes: object) -> Markup:
    """A shape with a title, which browsers show when somebody points at it."""
    return element("g", element("title", str(escape(title))) + shape, **attributes)


def drawing(width: float, height: float, about: str, parts: Iterable[str], kind: str) -> Markup:
    """A whole drawing; a screen reader reads `about`."""
    return element(
        "svg",
        "".join(parts),
        viewBox=f"0 0 {_short(width)} {_short(height)}",
        role="img",
        aria_label=about,
        class_=f"picture {kind}",
        preserveAspectRatio="xMidYMid meet",
    )


def _short(value: object) -> object:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value
