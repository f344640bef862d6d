"""Draws SVG: each picture has a template of its own, which this renders."""

from markupsafe import Markup

from ..environment import environment


def draw(picture: str, width: int, height: int, about: str, **facts: object) -> Markup:
    """The picture of this name; a screen reader reads `about`."""
    template = environment().get_template(f"{picture}.svg.j2")
    drawn = template.render(picture=picture, width=width, height=height, about=about, **facts)
    return Markup(drawn)  # noqa: S704 - the template has escaped it
