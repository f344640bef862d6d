"""Signs of life: a client gives them once for all the topics that it consumes together. Pure.

The loops around it supply the lock, the time and the calls.
"""

from attrs import define, field

from .holds import Hold
from .stock import SIGN, Stock

_CLAIMS = 100
"""Most claims for which a sign reports begun messages."""


@define(eq=False)
class Pulse:
    """When a client gives its next sign of life, and whether it says goodbye at its end."""

    at: float
    """When the next sign is due."""
    registered: bool = field(default=False, init=False)
    """Whether the server watches the client."""
    cut: bool = field(default=False, init=False)
    """Whether a long poll was given up, whose answer may have held messages."""
    _giving: bool = field(default=False, init=False)
    """Whether a sign is on its way."""
    _stocks: list[Stock] = field(factory=list[Stock], init=False)
    _living: int = field(default=0, init=False)
    """Topics whose loops have not ended."""

    def join(self, stock: Stock) -> None:
        """Adds a topic that the client consumes."""
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
        """Makes the first sign due: the client has a claim, so the server is to notice from now on when it dies."""
        if self.watched and not self.registered and not self._giving:
            self.at = now

    def wait(self, now: float) -> float:
        """Seconds until the next check; 0 if a sign is due."""
        return self._every if self._giving else max(0.0, self.at - now)

    def begin(self, now: float) -> bool:
        """Whether the caller is to give a sign now; nobody else gives one before `end`."""
        if self._giving or now < self.at:
            return False
        if not self.watched:
            self.at = now + self._every / 5
            return False
        self._giving = True
        return True

    def begun(self) -> list[tuple[Hold, list[str]]]:
        """The messages to report as begun, by claim."""
        return [told for stock in self._stocks for told in stock.begun()][:_CLAIMS]

    def heard(self, asked: float, seconds: float) -> None:
        """Notes that the server has taken the sign, for so many seconds."""
        self.registered = True
        for stock in self._stocks:
            stock.note_alive(asked, seconds)

    def end(self, now: float) -> None:
        """Notes that the sign was given, whatever came of it."""
        self._giving = False
        self.at = now + self._every

    def leave(self) -> bool:
        """Notes that the loops of one topic have ended. Returns whether to deregister: no loops are at work any more,
        the server may know the client, and no place on a broadcast topic is to be kept."""
        self._living -= 1
        keeps_place = any(stock.keeps_place for stock in self._stocks)
        return not self._living and (self.registered or self.cut) and not keeps_place
