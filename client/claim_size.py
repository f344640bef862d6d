"""How many messages a loop claims at once. Pure.

What a claim costs beside its messages is most of a quick handler's time. So the claims of `run` grow while its workers
wait for each with nothing to do, and are as they were once there is enough, or nothing is left behind them.
"""

MANY = 100
"""Messages of a claim, unless another number is said: of ten, the claims are most of the work."""
_GROWN = 500
"""What it grows to, at most: of more, little more is gained."""
_MOST = 1000
"""That the server gives in one."""


def claim_size(workers: int, max_messages: int) -> int:
    """Messages of one claim for so many workers: two for each, and enough to be worth a claim."""
    return min(max(MANY, 2 * workers), max_messages, _MOST)


def grown(size: int, max_messages: int) -> int:
    """What such a claim may grow to: the half of what may be held, for the next is claimed ahead."""
    return max(size, min(_GROWN, max_messages // 2))


def ahead(size: int, workers: int) -> int:
    """How many may wait when the next claim is made: work for all until it is answered."""
    return max(workers, size // 2)


class ClaimSize:
    """The size of the next claim."""

    def __init__(self, least: int, most: int, ahead: int) -> None:
        self._least = least
        self._most = most
        self._ahead = ahead
        self.now = least
        self._full = False
        """The last claim was."""

    @property
    def ahead(self) -> int:
        """How many may wait when the next claim is made."""
        return self._ahead if self.now == self._least else max(self._ahead, self.now // 2)

    def claimed(self, messages: int, waiting: int) -> None:
        """So many came, and so many had waited for a worker until then."""
        had_work, self._full = self._full, messages >= self.now
        if not self._full:
            self.now = self._least
        elif not waiting and had_work:
            self.now = min(2 * self.now, self._most)
        elif waiting > self.ahead // 2:
            self.now = max(self.now // 2, self._least)
