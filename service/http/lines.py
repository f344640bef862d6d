"""A body of any length as lines: it comes in pieces, and no more is kept than the beginning of one line."""

from collections.abc import Iterator

from attrs import define, field

Line = tuple[int, bytes | None]
"""Its number, from 1, and its text without the line break; None when it is too long."""


@define(eq=False)
class Lines:
    """Cuts pieces into lines."""

    limit: int
    """Bytes of a line."""
    number: int = field(default=0, init=False)
    """Of the last line that is whole."""
    _begun: bytearray = field(factory=bytearray, init=False)
    """Of the next line."""
    _too_long: bool = field(default=False, init=False)
    """The next line is; nothing of it is kept."""

    @property
    def kept(self) -> int:
        """Bytes of the line that has begun."""
        return len(self._begun)

    @property
    def skips(self) -> bool:
        """Whether the next line is too long, and nothing of it is kept."""
        return self._too_long

    def feed(self, piece: bytes) -> Iterator[Line]:
        """The lines that end in this piece, but for blank ones; each is cut when it is asked for, for all of a piece
        may take forty times its bytes. Nothing else may be fed before the last has been."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            text, start = piece[start:end], end + 1
            self.number += 1
            if self._begun or self._too_long or len(text) > self.limit:
                self._keep(text)
                text = bytes(self._begun)
                self._begun.clear()
            if self._too_long:
                self._too_long = False
                yield self.number, None
            elif text and not text.isspace():
                yield self.number, text
        self._keep(piece[start:])

    def end(self) -> Iterator[Line]:
        """The last line, when the body has come whole and has no line break at its end."""
        if self._begun or self._too_long:
            yield from self.feed(b"\n")

    def _keep(self, text: bytes) -> None:
        if self._too_long or len(self._begun) + len(text) > self.limit:
            self._too_long = True
            self._begun.clear()
        else:
            self._begun += text
