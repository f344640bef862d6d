"""Unsealed queues: queues whose offsets Redis draws, and that the sealer is to look at."""

import trio
from attrs import define, field


@define(eq=False)
class Unsealed:
    queues: set[int] = field(factory=set[int], init=False)
    some: trio.Event = field(factory=trio.Event, init=False)
    needed: bool = field(default=False, init=False)
    """Whether Redis draws, or has drawn, the offsets of any queue that was written to here."""

    def committed(self, queue_id: int) -> None:
        """This node has written messages to the queue; from now on messages of other nodes are looked for, too."""
        self.needed = True
        self.touch(queue_id)

    def touch(self, queue_id: int) -> None:
        self.queues.add(queue_id)
        self.some.set()

    def take(self) -> set[int]:
        """The queues that were touched since the last call."""
        self.some = trio.Event()
        taken, self.queues = self.queues, set[int]()
        return taken
