"""Broadcast: each client of a group has an offset of its own in each queue, and every message comes to every client.

There are no claims and no retries. A client confirms what it got with its next request (`after`), so that a lost answer
is given again; or its offset moves with the answer. The offsets are in `reader` and survive restarts. They are removed
with the client: when it is deregistered or dead, or has not asked for as long as messages are kept.
"""

from collections.abc import Sequence

from attrs import define, field

from ..errors import GroupGone, TopicGone
from ..ports import Asked, Transaction
from ..records import Delivered, Group, GroupState, Queue, QueueState, ReadAnswer, ReadRequest
from ..rows import encode
from .positions import Position, offset_of
from .stretches import PAGE, Stretch

_SCAN = 4 * PAGE
"""How many messages one request reads in a transaction. It may stop among messages with other tags; the next request
goes on from there."""

_SEEN_FOR = 60_000
"""Milliseconds after which it is recorded again that a client has asked."""

_Page = tuple[list[Delivered], int]
"""Messages, and the offset behind what was read."""


async def read_on(tx: Transaction, requests: Sequence[ReadRequest], now: int) -> list[ReadAnswer]:
    """Reads messages for clients of broadcast topics, for each from its own offset on; returns an answer for each, in
    order."""
    return [answer for answer in await Reading(now).write(tx, requests) if answer is not None]


async def read_on_free(tx: Transaction, requests: Sequence[ReadRequest], now: int) -> list[ReadAnswer | None]:
    """As `read_on`, but without waiting: the answer is None for a client whose offsets another transaction holds."""
    return await Reading(now, free=True).write(tx, requests)


@define
class Reading:
    """Requests of broadcast clients in one transaction."""

    now: int
    free: bool = False
    """Whether clients whose offsets are locked are left out instead of waited for."""
    _pages: dict[tuple[int, int, int, frozenset[str] | None], _Page] = field(
        factory=dict[tuple[int, int, int, frozenset[str] | None], _Page]
    )
    """By queue, offset, size and tags: clients at the same offset share what is read."""
    _ends: dict[int, int] = field(factory=dict[int, int])

    async def write(self, tx: Transaction, requests: Sequence[ReadRequest]) -> list[ReadAnswer | None]:
        """Returns an answer for each request, in order; None for one that was left out. Locks the offsets in the order
        of their keys."""
        answers: dict[int, ReadAnswer | None] = {}
        for index in sorted(range(len(requests)), key=lambda i: (requests[i].group.id, encode(requests[i].client))):
            answers[index] = await self._read(tx, requests[index])
        return [answers[index] for index in range(len(requests))]

    async def _read(self, tx: Transaction, request: ReadRequest) -> ReadAnswer | None:
        group, queues = request.group, request.group.topic.queues
        if any(queue.id not in self._ends for queue in queues):
            self._ends |= dict(await tx.fetch("queue.ends", tuple[int, int], [queue.id for queue in queues]))
        if any(queue.id not in self._ends for queue in queues):
            raise TopicGone(f"topic {group.topic.name!r} has been removed meanwhile")
        ends = {queue.id: self._ends[queue.id] for queue in queues}
        if self.free and await self._is_locked(tx, request):
            return None
        before = await self._lock(tx, request, ends)
        positions = dict(before)
        if request.after is not None:
            queue, offset = request.after
            if offset > ends[queue.id]:
                return ReadAnswer((), (queue.number, positions[queue.id]), beyond=True)
            positions[queue.id] = max(offset, positions[queue.id])  # a late confirmation moves nothing back
        queue = max(queues, key=lambda q: ends[q.id] - positions[q.id])
        began = positions[queue.id]
        messages, position = await self._page(tx, request, queue, began, ends[queue.id])
        if request.moves or not messages:  # messages with other tags need no confirmation
            positions[queue.id] = position
        client = encode(request.client)
        for queue_id, now_at in positions.items():
            if now_at != before[queue_id]:
                await tx.execute("reader.move", now_at, group.id, client, queue_id)
        more = not messages and any(positions[q.id] < ends[q.id] for q in queues)
        return ReadAnswer(tuple(messages), (queue.number, position), more=more)

    async def _is_locked(self, tx: Transaction, request: ReadRequest) -> bool:
        """Whether another transaction holds an offset of the client; if not, all are locked from here on."""
        place = (request.group.id, encode(request.client))
        free = Asked("reader.free", tuple[int, int], *place)
        there = Asked("reader.there", tuple[int, int], *place)
        await tx.fetch_all([free, there])
        return len(free.rows) < len(there.rows)

    async def _lock(self, tx: Transaction, request: ReadRequest, ends: dict[int, int]) -> dict[int, int]:
        """The client's offset by queue, locked. Missing ones are made: for a new client, and for a new queue."""
        place = (request.group.id, encode(request.client))
        rows = await tx.fetch("reader.lock", tuple[int, int, int], *place)
        positions = {queue_id: position for queue_id, position, _ in rows}
        if missing := ends.keys() - positions.keys():
            if not await tx.fetch("consumer_group.lock", int, request.group.id):
                raise GroupGone("the group has been removed meanwhile")
            new = not positions
            made: list[tuple[int, bytes | None, int, int, int]] = []
            for queue_id in sorted(missing):
                # A known client begins at 0 in a new queue, since it has read nothing of it.
                begin = await _begin(tx, request, queue_id, ends[queue_id]) if new else 0
                made.append((*place, queue_id, begin, self.now))
            await tx.execute_many("reader.add", made)
            rows = await tx.fetch("reader.lock", tuple[int, int, int], *place)
            positions = {queue_id: position for queue_id, position, _ in rows}
        if min(asked_at for *_, asked_at in rows) <= self.now - _SEEN_FOR:
            await tx.execute("reader.see", self.now, *place)
        return {queue_id: positions[queue_id] for queue_id in ends}

    async def _page(self, tx: Transaction, request: ReadRequest, queue: Queue, began: int, end: int) -> _Page:
        """The next messages of a queue with the tags asked for; none at the end of the queue, or of the scan."""
        known = (queue.id, began, request.size, request.tags)
        if known not in self._pages:
            page_size = PAGE if request.tags is not None else min(PAGE, request.size)
            stretch = Stretch(tx, queue, began, end, page_size, self.now)
            messages: list[Delivered] = []
            scanned = 0
            while not messages and stretch.position < end and scanned < _SCAN:
                found = await stretch.take(min(stretch.position + request.size, end))
                if not found:
                    stretch.skip_hole()
                scanned += max(1, len(found), len(stretch.take_expired()))
                messages = [m for _, m in found if request.tags is None or m.tag in request.tags]
            self._pages[known] = (messages, stretch.position)
        return self._pages[known]


async def _begin(tx: Transaction, request: ReadRequest, queue_id: int, end: int) -> int:
    """Where a new client begins in a queue."""
    if request.since is not None:
        return await offset_of(tx, queue_id, Position("time", request.since))
    return end if request.latest else 0


async def forget(tx: Transaction, clients: Sequence[str]) -> None:
    """Forgets the offsets of clients in all groups."""
    groups = await tx.fetch("consumer_group.of_broadcasts", int)
    for client in clients if groups else ():
        await tx.execute("reader.forget", groups, encode(client))


async def broadcast_state(tx: Transaction, group: Group) -> GroupState:
    """The group's clients, and for each queue the offset of the client that is furthest behind."""
    ends = dict(await tx.fetch("queue.ends", tuple[int, int], [queue.id for queue in group.topic.queues]))
    if len(ends) < len(group.topic.queues):
        raise TopicGone(f"topic {group.topic.name!r} has been removed meanwhile")
    least = dict(ends)
    clients: set[str] = set()
    for client, queue_id, position in await tx.fetch("reader.of_group", tuple[str, int, int], group.id):
        clients.add(client)
        if queue_id in least:
            least[queue_id] = min(least[queue_id], position)
    queues = tuple(QueueState(queue.number, least[queue.id], ends[queue.id]) for queue in group.topic.queues)
    return GroupState(queues, 0, 0, 0, 0, 0, (0,) * len(group.ladder.rungs), tuple(sorted(clients)))
