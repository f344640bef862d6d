"""How many messages a loop claims at once. Pure.

With a quick handler, most of the time goes into what a claim costs beside its messages. So the claims of `run` grow
while its workers wait for each with nothing to do, and shrink again once enough messages wait, or a claim is not full.
"""

MANY = 100
"""Messages of a claim by default: with ten, the claims would be most of the work."""
_GROWN = 500
"""Most messages that a claim grows to: more gains little."""
_MOST = 1000
"""Most messages that the server gives in one claim."""


def claim_size(workers: int, max_messages: int) -> int:
    """Messages of one claim for so many workers: two for each, and enough to be worth a claim."""
    return min(max(MANY, 2 * workers), max_messages, _MOST)


def grown(size: int, max_messages: int) -> int:
    """The size that such a claim may grow to: half of what may be held, since the next is claimed ahead."""
    return max(size, min(_GROWN, max_messages // 2))


def ahead(size: int, workers: int) -> int:
    """How many messages may wait when the next claim is made: work for all workers until it is answered."""
    return max(workers, size // 2)


class ClaimSize:
    """The size of the next claim."""

    def __init__(self, least: int, most: int, ahead: int) -> None:
        self._least = least
        self._most = most
        self._ahead = ahead
        self.now = least
        self._full = False
        """Whether the last claim was full."""

    @property
    def ahead(self) -> int:
        """How many messages may wait when the next claim is made."""
        return self._ahead if self.now == self._least else max(self._ahead, self.now // 2)

    def claimed(self, messages: int, waiting: int) -> None:
        """Takes how many messages came, and how many had waited for a worker until then."""
        had_work, self._full = self._full, messages >= self.now
        if not self._full:
            self.now = self._least
        elif not waiting and had_work:
            self.now = min(2 * self.now, self._most)
        elif waiting > self.ahead // 2:
            self.now = max(self.now // 2, self._least)
