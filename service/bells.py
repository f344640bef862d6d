"""Bells: who waits for a queue to grow hears it ring. Nothing is kept; a bell that nobody waits for costs nothing."""

import trio


class Bells:
    """One bell to a queue, by its id."""

    def __init__(self) -> None:
        self._bells: dict[int, trio.Event] = {}

    def ring(self, queue_id: int) -> None:
        """The queue has grown."""
        if (bell := self._bells.pop(queue_id, None)) is not None:
            bell.set()

    def ring_all(self) -> None:
        """Everybody is to look, or to go home."""
        for queue_id in list(self._bells):
            self.ring(queue_id)

    async def wait(self, queue_id: int) -> None:
        """Until the queue has grown."""
        await self._bells.setdefault(queue_id, trio.Event()).wait()
