"""Reads an HTML page as a browser takes it apart."""

from html.parser import HTMLParser

_VOID = {"meta", "link", "input", "img", "br", "hr", "option"}


class HTMLPage(HTMLParser):
    """The elements with their attributes, and the text of a page in which every element that begins also ends."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self._open.pop() == tag, f"</{tag}>"

    def handle_data(self, data: str) -> None:
        self.text.append(data)
