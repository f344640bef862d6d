"""What all drawings share: elements of SVG, with their texts escaped."""

from collections.abc import Iterable

from markupsafe import Markup, escape


def element(name: str, content: str = "", **attributes: object) -> Markup:
    """An element. `_` in the name of an attribute is a hyphen, and one at its end is none; what is None is left out."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{said}>{content}</{name}>")  # noqa: S704 - attributes are escaped, content is made here


def text(said: str, x: float, y: float, **attributes: object) -> Markup:
    """A text, escaped."""
    return element("text", str(escape(said)), x=x, y=y, **attributes)


def titled(shape: str, title: str, **attributes: object) -> Markup:
    """A shape that says what it is when somebody points at it."""
    return element("g", element("title", str(escape(title))) + shape, **attributes)


def drawing(width: float, height: float, about: str, parts: Iterable[str], kind: str) -> Markup:
    """The whole, which a screen reader tells by what it is about."""
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
