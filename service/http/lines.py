"""Splits a body of any length into lines: it comes in pieces, and only the beginning of one line is kept in memory."""

from collections.abc import Iterator

from attrs import define, field

Line = tuple[int, bytes | None]
"""The number of a line, from 1, and its text without the line break, or None if it is too long."""


@define(eq=False)
class Lines:
    limit: int
    """The most bytes of a line."""
    number: int = field(default=0, init=False)
    """The number of the last complete line."""
    _begun: bytearray = field(factory=bytearray, init=False)
    """The beginning of the next line."""
    skips: bool = field(default=False, init=False)
    """Whether the next line is too long; nothing of it is kept."""

    @property
    def kept(self) -> int:
        return len(self._begun)

    def feed(self, piece: bytes) -> Iterator[Line]:
        """The lines that end in this piece, except blank ones. Each is cut only when asked for: all lines of a piece
        together may take forty times its bytes. Feed the next piece only after the last line was taken."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            text, start = piece[start:end], end + 1
            self.number += 1
            if self._begun or self.skips or len(text) > self.limit:
                self._keep(text)
                text = bytes(self._begun)
                self._begun.clear()
            if self.skips:
                self.skips = False
                yield self.number, None
            elif text and not text.isspace():
                yield self.number, text
        self._keep(piece[start:])

    def end(self) -> Iterator[Line]:
        """The last line, if the complete body does not end with a line break."""
        if self._begun or self.skips:
            yield from self.feed(b"\n")

    def _keep(self, text: bytes) -> None:
        if self.skips or len(self._begun) + len(text) > self.limit:
            self.skips = True
            self._begun.clear()
        else:
            self._begun += text
