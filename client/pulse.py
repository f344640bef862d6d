"""Signs of life: a client gives them once for all the topics that it consumes together. Pure.

The loops around it bring the lock, the time and the calls.
"""

from attrs import define, field

from .holds import Hold
from .stock import SIGN, Stock

_CLAIMS = 100
"""Of which a sign tells what was begun, at most."""


@define(eq=False)
class Pulse:
    """When a client gives its next sign of life, and whether it says goodbye at its end."""

    at: float
    """When the next sign is due."""
    registered: bool = field(default=False, init=False)
    """The server watches it."""
    cut: bool = field(default=False, init=False)
    """A long poll was given up, whose answer may have held something."""
    _giving: bool = field(default=False, init=False)
    """A sign is on its way."""
    _stocks: list[Stock] = field(factory=list[Stock], init=False)
    _living: int = field(default=0, init=False)
    """Topics whose loops have not ended."""

    def join(self, stock: Stock) -> None:
        """It consumes one more topic."""
        self._stocks.append(stock)
        self._living += 1

    @property
    def watched(self) -> bool:
        """Whether to give signs at all."""
        return any(stock.watched for stock in self._stocks)

    @property
    def _every(self) -> float:
        return min((stock.sign_every for stock in self._stocks), default=SIGN)

    def hasten(self, now: float) -> None:
        """It has its first claim: from now on the server is to notice when it dies."""
        if self.watched and not self.registered and not self._giving:
            self.at = now

    def wait(self, now: float) -> float:
        """Seconds until it is to be looked at again; 0 when a sign is due."""
        return self._every if self._giving else max(0.0, self.at - now)

    def begin(self, now: float) -> bool:
        """Whether a sign is to be given now: by the caller, and by nobody else before its `end`."""
        if self._giving or now < self.at:
            return False
        if not self.watched:
            self.at = now + self._every / 5
            return False
        self._giving = True
        return True

    def begun(self) -> list[tuple[Hold, list[str]]]:
        """What is to be told of as begun."""
        return [told for stock in self._stocks for told in stock.begun()][:_CLAIMS]

    def heard(self, asked: float, seconds: float) -> None:
        """The server has taken the sign, for so many seconds."""
        self.registered = True
        for stock in self._stocks:
            stock.note_alive(asked, seconds)

    def end(self, now: float) -> None:
        """The sign was given, whatever came of it."""
        self._giving = False
        self.at = now + self._every

    def leave(self) -> bool:
        """The loops of one topic have ended. Whether to say goodbye: nothing of it is at work any more, and no place on
        a broadcast topic is to be kept."""
        self._living -= 1
        keeps_place = any(stock.keeps_place for stock in self._stocks)
        return not self._living and (self.registered or self.cut) and not keeps_place
