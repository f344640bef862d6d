"""Checks the look of a page from its text: where the words of a drawing are, and the contrast of colours."""

import re
from html.parser import HTMLParser

_WIDE = 0.56
"""The approximate width of a letter as a fraction of its height."""


_VOID = {"meta", "br", "hr", "img", "input", "link"}


class Tags(HTMLParser):
    """The tags of a page: those still open at its end, its ids, and where its links lead. Every end has its start."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag not in _VOID:
            self.open.append(tag)
        if told.get("id"):
            self.ids.append(told["id"] or "")
        if told.get("href"):
            self.links.append(told["href"] or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def width_of(drawing: str) -> float:
    """The width of an SVG in pixels."""
    return float(re.findall(r'viewBox="0 0 ([\d.]+) ', drawing)[0])


def cut_texts(drawing: str) -> list[str]:
    """The texts of an SVG that extend beyond its sides."""
    width = width_of(drawing)
    written = re.findall(r'<text style="([^"]*)" x="([-\d.]+)"[^>]*>(.*?)</text>', drawing, re.DOTALL)
    assert len(written) == drawing.count("<text") > 0
    cut: list[str] = []
    for style, x, text in written:
        long = len(text) * float(re.findall(r"font-size: ([\d.]+)px", style)[0]) * _WIDE
        anchor = re.findall(r"text-anchor: (\w+)", style) or ["start"]
        left = float(x) - {"start": 0.0, "middle": long / 2, "end": long}[anchor[0]]
        if left < 0 or left + long > width:
            cut.append(text)
    return cut


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, `#rrggbb`: from 1 to 21, as defined by WCAG 2."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
