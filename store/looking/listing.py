"""Lists all messages of a topic, page by page: those that wait, and those in the stream.

Neither kind has an index by topic and time together, so a page has some of each: waiting messages with the next due
first, and those in the stream with the newest first. The waiting ones are searched among those of all topics
(`finding`), a bounded number of rows in one call. Those in the stream are read backwards from the ends of the topic's
queues and merged by the time when they came; this reads the rows that are shown, and a few for each queue. So a page
may be short, or empty, and still not be the last: `Page.after` tells.

Cancelled and suppressed messages, and dead letters that have outlived their messages, are not listed: they are found by
their state.
"""

from collections import deque

from attrs import define, field, frozen

from ..ports import Asked, Transaction
from ..records import Queue, Topic
from ..stream.positions import DISORDER, Position, offset_of
from . import finding
from .finding import Page, Wanted, within

_ROWS = 5_000
"""How many rows of the stream are read in one call at most, beside one for each queue."""
_QUEUES, _TIMED_QUEUES = 100, 4
"""How many queues are merged at a time; the next ones follow when all of these are done. Fewer when a time is searched,
since that takes a statement for each step of the binary search."""
_Row = tuple[int, int, int]
"""(offset, message, when it came into the stream)."""


@frozen
class Along:
    """The place at which a page begins."""

    waiting: int | None = 0
    """Waiting messages: behind this id; None: no more wait."""
    queue: int = 0
    """The stream: at the queue with this index in the topic's list, and some after it."""
    below: tuple[int, ...] | None = None
    """The offset below which each of these queues is read; None: from their ends."""


async def find(
    tx: Transaction, topic: Topic, since: int | None, until: int | None, place: Along, limit: int
) -> Page[Along]:
    """A page of at most `limit` messages. `since` and `until` apply to `deliver_at`, and for messages in the stream to
    the time when they came there; Unix milliseconds, the end not included."""
    # Waiting messages are read before the stream: one that is promoted meanwhile may be met twice, but is not missed.
    waits = await _waiting(tx, topic, Wanted("scheduled", since, until), place, limit)
    streamed = await _Stream(tx, topic, Wanted("published", since, until), place).read(limit)
    room = max(limit - len(streamed.places), (limit + 1) // 2)
    if len(waits.places) > room:
        waits = Page(waits.places[:room], finding.PageStart(after=waits.places[room - 1][0]))
    after = None if waits.after is None else waits.after.after
    met = [(id_, Along(behind.after, place.queue, place.below)) for id_, behind in waits.places]
    known = {id_ for id_, _ in met}
    if len(streamed.places) > limit - len(met):
        rest = streamed.places[: limit - len(met)]
        streamed = Page(rest, rest[-1][1] if rest else place)
    met += [(id_, Along(after, behind.queue, behind.below)) for id_, behind in streamed.places if id_ not in known]
    if streamed.after is None:
        end = None if after is None else Along(after, len(topic.queues))
    else:
        end = Along(after, streamed.after.queue, streamed.after.below)
    return Page(tuple(met), end)


async def _waiting(tx: Transaction, topic: Topic, wanted: Wanted, place: Along, limit: int) -> Page[finding.PageStart]:
    if place.waiting is None:
        return Page((), None)
    return await finding.find(tx, topic, wanted, finding.PageStart(after=place.waiting), limit)


@define(eq=False)
class _Stream:
    """Reads the topic's queues backwards, from a place on."""

    _tx: Transaction
    _topic: Topic
    _wanted: Wanted
    _place: Along
    _left: int = field(factory=lambda: _ROWS, init=False)
    """How many rows may still be read."""

    async def read(self, limit: int) -> Page[Along]:
        """Reads the newest messages of one run of the topic's queues."""
        met: list[tuple[int, Along]] = []
        queues = self._topic.queues
        width = _QUEUES if self._wanted.until is None else _TIMED_QUEUES
        number, below = self._place.queue, self._place.below
        while number < len(queues):
            heads = await self._heads(queues[number : number + width], below)
            if not await self._merge(number, heads, limit, met):
                return Page(tuple(met), _place(number, heads))
            number, below = number + width, None
            if self._left < _ROWS and number < len(queues):  # else nothing was read: these queues never had a message
                return Page(tuple(met), Along(None, number))
        return Page(tuple(met), None)

    async def _heads(self, queues: tuple[Queue, ...], below: tuple[int, ...] | None) -> list["_Head"]:
        if below is not None:  # a queue that was added after the first page is left out
            return [_Head(queue.id, end) for queue, end in zip(queues, below + (0,) * len(queues), strict=False)]
        if self._wanted.until is not None:
            position = Position("time", self._wanted.until)
            return [_Head(queue.id, await offset_of(self._tx, queue.id, position)) for queue in queues]
        ends = dict(await self._tx.fetch("queue.ends", tuple[int, int], [queue.id for queue in queues]))
        return [_Head(queue.id, ends.get(queue.id, 0)) for queue in queues]

    async def _merge(self, number: int, heads: list["_Head"], limit: int, met: list[tuple[int, Along]]) -> bool:
        """Merges messages into `met`; returns whether these queues are done."""
        size = -(-(limit - len(met)) // len(heads)) + 1
        while True:
            empty = [head for head in heads if not head.rows and head.more]
            if empty:
                if self._left <= 0:
                    return False
                await self._fill(empty, max(1, min(size, self._left // len(empty))))
                size *= 2
                continue
            full = [head for head in heads if head.rows]
            if not full:
                return True
            if len(met) == limit:
                return False
            newest = max(full, key=lambda head: head.rows[0][2])
            newest.below, id_, came = newest.rows.popleft()
            if id_ >= 0 and within(self._wanted, came):  # no tombstones
                met.append((id_, _place(number, heads)))

    async def _fill(self, heads: list["_Head"], size: int) -> None:
        asked = [Asked("message.newest", tuple[int, int, int], head.queue_id, head.below, size) for head in heads]
        await self._tx.fetch_all(asked)
        oldest = 0 if self._wanted.since is None else self._wanted.since - DISORDER
        for head, rows in zip(heads, (one.rows for one in asked), strict=True):
            self._left -= max(1, len(rows))
            head.more = len(rows) == size
            head.rows.extend(rows)
            if rows and rows[-1][2] < oldest:
                head.more = False  # all rows below are older, too


@define(eq=False)
class _Head:
    """How far a queue was read backwards."""

    queue_id: int
    below: int
    rows: deque[_Row] = field(factory=deque[_Row], init=False)
    """Rows that were read but not merged yet."""
    more: bool = field(init=False)
    """Whether there may be rows below these."""

    def __attrs_post_init__(self) -> None:
        self.more = self.below > 0

    @property
    def left(self) -> int:
        """The offset below which the next page begins; 0 if nothing is left."""
        return self.below if self.rows or self.more else 0


def _place(number: int, heads: list[_Head]) -> Along:
    return Along(None, number, tuple(head.left for head in heads))
