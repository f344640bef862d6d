"""Unsealed queues: those that were touched, on whose offsets Redis draws. The sealer seals them."""

import trio
from attrs import define, field


@define(eq=False)
class Unsealed:
    """By queue id."""

    queues: set[int] = field(factory=set[int], init=False)
    some: trio.Event = field(factory=trio.Event, init=False)
    needed: bool = field(default=False, init=False)
    """Whether any queue here is, or was, sequenced elsewhere."""

    def committed(self, queue_id: int) -> None:
        """Messages of ours are in this queue; from now on it is looked for others', too."""
        self.needed = True
        self.touch(queue_id)

    def touch(self, queue_id: int) -> None:
        """It is to be looked at."""
        self.queues.add(queue_id)
        self.some.set()

    def take(self) -> set[int]:
        """What was touched since the last time."""
        self.some = trio.Event()
        taken, self.queues = self.queues, set[int]()
        return taken
