"""Stretches of a queue, read in pages: a claim's messages, or a pull by the reader's own offset."""

from itertools import takewhile
from typing import NamedTuple

from attrs import define
from msgspec.structs import astuple

from ..content import Content
from ..expiry import is_past
from ..ports import Asked, Transaction
from ..records import Delivered, Queue
from .positions import end_of

PAGE = 256
"""Messages read at a time: with bodies at their limit, 64 MiB."""
CLAIM_BYTES = 8 << 20
"""A claim stops growing past this many bytes of bodies."""
_MOST, _PAGE_BYTES = 512, 8 << 20
"""The most messages read at a time after small ones, and the bytes that their bodies are expected to have at most."""
_LEAST = 16
"""The fewest messages read at a time, however few are still wanted: some may be past their time."""

_SCAN = 5_000
"""Messages past their time that one pull passes over."""
_AT_ONCE = 500
"""Messages past their time that are passed over in one look."""


class Message(NamedTuple):
    """A message in a topic's own queue."""

    offset: int
    id: int
    content: Content
    streamed_at: int

    def delivered(self, queue: int) -> Delivered:
        """As it is handed out for the first time."""
        id_, offset, at = self.id, self.offset, self.streamed_at
        return Delivered(*astuple(self.content), id=id_, queue=queue, offset=offset, attempt=1, streamed_at=at)


class Expiry(NamedTuple):
    """When a message is past its time."""

    offset: int
    expires_at: int | None


class Returned(NamedTuple):
    """A message in a retry queue, and where it lies in the topic's own."""

    offset: int
    id: int
    content: Content
    streamed_at: int
    attempt: int
    source: int
    losses: int

    def delivered(self, queue: int) -> Delivered:
        """As it is handed out once more."""
        return Delivered(
            *astuple(self.content),
            id=self.id,
            queue=queue,
            offset=self.source,
            attempt=self.attempt,
            streamed_at=self.streamed_at,
            losses=self.losses,
        )


@define
class Page:
    """The messages of a queue from an offset on: to be asked, and then as many as there were; `limit` at most."""

    queue: Queue
    position: int
    limit: int
    asked: Asked[Message] | Asked[Returned]

    @classmethod
    def of(cls, queue: Queue, position: int, end: int, limit: int, *, returned: bool) -> "Page":
        """What lies before `end`. `returned`: in a retry queue."""
        place = (queue.id, position, end, limit)
        if returned:
            return cls(queue, position, limit, Asked("redelivery.range", Returned, *place))
        return cls(queue, position, limit, Asked("message.range", Message, *place))

    def messages(self, now: int) -> list[tuple[int, Delivered]]:
        """Those that may be handed out now, each with its offset here."""
        number = self.queue.number
        return [
            (row.offset, row.delivered(number)) for row in self.asked.rows if not is_past(row.content.expires_at, now)
        ]


class Stretch:
    """Reads a stretch of a queue in pages, so that neighbouring claims share them: what may be handed out now.

    What is past its time is passed over. Of many such in a row the bodies are not read.
    """

    def __init__(
        self,
        tx: Transaction,
        queue: Queue,
        position: int,
        end: int,
        page_size: int,
        now: int,
        *,
        returned: bool = False,
        page: Page | None = None,
        wanted: int | None = None,
    ) -> None:
        """With `wanted` no more is read than that many, or little more, and of small messages more at a time."""
        self._tx = tx
        self._queue = queue
        self._returned = returned
        self.position = position
        self._read_to = position  # every row below it has been read
        self._end = end
        self._page_size = page_size
        self._wanted = wanted
        self._read_many = self._read_bytes = 0  # messages, and bytes of their bodies
        self._now = now
        self._stale = False  # of the last page nothing may be handed out any more
        self._expired: list[int] = []  # the offsets of what was read and is past its time
        self._page: list[tuple[int, Delivered]] = []
        if page is not None and (page.queue.id, page.position) == (queue.id, position):
            self._turn_to(page)

    async def take(self, until: int, most: int = CLAIM_BYTES) -> list[tuple[int, Delivered]]:
        """The messages from the position up to `until`, each with its offset here; fewer past `most` bytes of them."""
        taken: list[tuple[int, Delivered]] = []
        weight = 0
        while self.position < until:
            await self._look()
            if not self._page or self._page[0][0] >= until:
                self.position = min(until, self._read_to) if not self._page else until
                continue
            offset, message = self._page[0]
            if taken and weight + len(message.body) > most:
                break
            taken.append(self._page.pop(0))
            weight += len(message.body)
            self.position = offset + 1
        return taken

    async def ahead(self) -> int:
        """The offset of the next message, or up to where there is none as far as has been read."""
        if self.position < self._end:
            await self._look()
        return self._page[0][0] if self._page else max(self.position, self._read_to)

    def skip_to(self, position: int) -> None:
        """Goes on at a later offset."""
        self._page = [(offset, message) for offset, message in self._page if offset >= position]
        self._expired = [offset for offset in self._expired if offset >= position]
        self.position = max(self.position, position)
        self._read_to = max(self._read_to, self.position)

    def skip_hole(self) -> None:
        """Goes on at the next message, past those that are gone, as far as that is known."""
        self.position = max(self.position, self._page[0][0] if self._page else self._read_to)

    @property
    def has_passed(self) -> bool:
        """Whether something was passed over since it is past its time, and not taken yet."""
        return bool(self._expired) and self._expired[0] < self.position

    def take_expired(self) -> list[int]:
        """The offsets of what was passed over since it is past its time, each once."""
        passed = [offset for offset in self._expired if offset < self.position]
        self._expired = [offset for offset in self._expired if offset >= self.position]
        return passed

    async def _look(self) -> None:
        if not self._page and self._read_to <= self.position:
            await self._read()

    async def _read(self) -> None:
        if self._stale:
            await self._pass_over()
            if self._read_to > self.position:
                return
        page = Page.of(self._queue, self.position, self._end, self._limit, returned=self._returned)
        await self._tx.fetch_all([page.asked])
        self._turn_to(page)

    @property
    def _limit(self) -> int:
        """Messages to the next page."""
        if self._wanted is None or not self._read_many:
            return self._page_size
        likely = _PAGE_BYTES * self._read_many // max(1, self._read_bytes)
        return min(max(self._wanted - self._read_many, _LEAST), max(PAGE, min(_MOST, likely)))

    async def _pass_over(self) -> None:
        """Up to the next message that may be handed out, or past a page of those that may not."""
        place = (self._queue.id, self.position, self._end, _AT_ONCE)
        rows = await self._tx.fetch("redelivery.expiries" if self._returned else "message.expiries", Expiry, *place)
        past = list(takewhile(lambda row: is_past(row.expires_at, self._now), rows))
        self._expired += [row.offset for row in past]
        self._stale = len(past) == _AT_ONCE
        if len(past) < len(rows):
            self._read_to = rows[len(past)].offset
        else:
            self._read_to = rows[-1].offset + 1 if self._stale else self._end

    def _turn_to(self, page: Page) -> None:
        rows, messages = page.asked.rows, page.messages(self._now)
        # What lies behind the end may have been committed since the end was read: it is for the next turn.
        self._page = [found for found in messages if found[0] < self._end]
        self._read_to = min(rows[-1].offset + 1, self._end) if len(rows) == page.limit else self._end
        if self._wanted is not None:
            self._read_many += len(messages)
            self._read_bytes += sum([len(message.body) for _, message in messages])
        if len(messages) < len(rows):
            alive = {offset for offset, _ in messages}
            self._expired += [row.offset for row in rows if row.offset < self._end and row.offset not in alive]
            self._stale = not messages


class Pulled(NamedTuple):
    """What a pull gives, and the offset at which the next begins."""

    messages: list[Delivered]
    next: int
    more: bool = False
    """It has stopped among messages that are past their time: to be gone on with."""


async def read_from(tx: Transaction, queue: Queue, offset: int, limit: int, now: int) -> Pulled:
    """Messages of a topic's own queue from an offset on, past what retention has taken and what is past its time.
    Raises `TopicGone`."""
    end = await end_of(tx, queue.id)
    for _, floor in await tx.fetch("cleaned.find", tuple[int, int], [queue.id]):
        offset = max(offset, floor)  # what lay below is past its time and gone
    stretch = Stretch(tx, queue, offset, end, min(PAGE, limit), now)
    passed = 0
    while stretch.position < end and passed < _SCAN:
        if found := await stretch.take(min(stretch.position + limit, end)):
            return Pulled([message for _, message in found], found[-1][0] + 1)
        stretch.skip_hole()
        passed += len(stretch.take_expired())
    return Pulled([], stretch.position if passed else offset, more=stretch.position < end)


async def pull(tx: Transaction, queue: Queue, offset: int, limit: int) -> list[Delivered]:
    """What lies there, past its time or not: for audits and tests."""
    return (await read_from(tx, queue, offset, limit, 0)).messages
