"""Entries that are due and whose queue is locked or slow: they wait here, by queue and in order.

A locked queue may be busy or stuck: the first entries that are held back stand in line for it. Or it may be slow: all
queues of a transaction that took long are suspects, and their entries come here. `unblocking` moves them on.

Within a queue the order stays: while entries of it are here, later ones are brought here too.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice

import trio
from attrs import define, field

BATCH = 1000
_PATIENCE, _EACH = 0.2, 0.001
"""Seconds after which a transaction counts as slow, and seconds to add for each entry in it."""
_SUSPECTS = 1000
"""Suspects that are remembered."""

QueueIds = dict[int, None]
"""Queues, in order. Each queue is in one of the four places below; in none while its entries are being promoted."""


@define(eq=False)
class Held:
    by_queue: dict[int, dict[int, None]] = field(factory=dict[int, dict[int, None]], init=False)
    """Entries of each queue, in order; a queue is here until the last of them is through."""
    _entries: set[int] = field(factory=set[int], init=False)
    _again: set[int] = field(factory=set[int], init=False)
    """Entries that came once more while they were under way. The transaction under way may have passed them over,
    because the one that brought them had them locked: they are tried again."""
    line: QueueIds = field(factory=QueueIds, init=False)
    """Queues that are to be stood in line for."""
    stuck: QueueIds = field(factory=QueueIds, init=False)
    """Queues that a look has found locked."""
    slow: QueueIds = field(factory=QueueIds, init=False)
    """Suspects, which wait for nothing else."""
    _suspects: QueueIds = field(factory=QueueIds, init=False)
    """Suspects, whether entries of them are here or not."""
    apart: QueueIds = field(factory=QueueIds, init=False)
    """Queues that have been waited for in vain, where it is not known whether a look shows the lock."""
    changed: trio.Event = field(factory=trio.Event, init=False)

    def __contains__(self, entry: object) -> bool:
        return entry in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def queues(self) -> Set[int]:
        """The queues whose entries are all to come here."""
        return self.by_queue.keys() | self._suspects.keys()

    def note(self, queues: Iterable[int], entries: int, took: float) -> None:
        """Notes that a transaction took so many seconds to bring so many entries to these queues."""
        for queue_id in queues:
            self._suspects.pop(queue_id, None)
            if took > _PATIENCE + entries * _EACH:
                self._suspects[queue_id] = None
        for queue_id in list(islice(self._suspects, max(0, len(self._suspects) - _SUSPECTS))):
            del self._suspects[queue_id]

    def put(self, held: Mapping[int, Sequence[int]]) -> None:
        for queue_id, entries in held.items():
            if queue_id not in self.by_queue:
                self.by_queue[queue_id] = {}
                self.wait([queue_id], self._home(queue_id))
            here = self.by_queue[queue_id]
            if self._is_under_way(queue_id):
                self._again.update(entry for entry in entries if entry in here)
            here.update(dict.fromkeys(entries))
            self._entries.update(entries)

    async def emptied(self) -> None:
        while self.by_queue:
            await trio.sleep(0.01)

    def wait(self, queues: Iterable[int], place: QueueIds) -> None:
        place.update(dict.fromkeys(queues))
        self.changed.set()

    def _is_under_way(self, queue_id: int) -> bool:
        return not any(queue_id in place for place in (self.line, self.stuck, self.slow, self.apart))

    def _home(self, queue_id: int) -> QueueIds:
        return self.slow if queue_id in self._suspects else self.line

    def take(self, queue_id: int, place: QueueIds, many: int = BATCH) -> list[int]:
        """Takes the queue out of its place; returns the first of its entries."""
        del place[queue_id]
        return list(islice(self.by_queue[queue_id], many))

    def through(self, queue_id: int, entries: Sequence[int]) -> int:
        """These entries are in the stream, or there was nothing to promote; returns how many the queue has left."""
        rest = self.by_queue[queue_id]
        over = [entry for entry in entries if entry not in self._again]
        self._again.difference_update(entries)
        for entry in over:
            rest.pop(entry, None)
        self._entries.difference_update(over)
        if rest:
            self.wait([queue_id], self._home(queue_id))
        else:
            del self.by_queue[queue_id]
        return len(rest)
