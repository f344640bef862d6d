"""Stretches of a queue, read in pages: a claim's messages, or a pull by the reader's own offset."""

from typing import NamedTuple

from attrs import define

from ..ports import Asked, Transaction
from ..records import Delivered, Queue
from ..rows import Content
from .positions import end_of

PAGE = 256
"""Messages read at a time: with bodies at their limit, 64 MiB."""
CLAIM_BYTES = 8 << 20
"""A claim stops growing past this many bytes of bodies."""


class Message(NamedTuple):
    """A message in a topic's own queue."""

    offset: int
    id: int
    content: Content
    streamed_at: int


class Returned(NamedTuple):
    """A message in a retry queue, and where it lies in the topic's own."""

    offset: int
    id: int
    content: Content
    streamed_at: int
    attempt: int
    source: int


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

    @property
    def messages(self) -> list[tuple[int, Delivered]]:
        """Each with its offset here."""
        number = self.queue.number
        return [
            (row.offset, Delivered(row.id, number, row.source, row.attempt, *row.content, row.streamed_at))
            if isinstance(row, Returned)
            else (row.offset, Delivered(row.id, number, row.offset, 1, *row.content, row.streamed_at))
            for row in self.asked.rows
        ]


class Stretch:
    """Reads a stretch of a queue in pages, so that neighbouring claims share them."""

    def __init__(
        self,
        tx: Transaction,
        queue: Queue,
        position: int,
        end: int,
        page_size: int,
        *,
        returned: bool = False,
        page: Page | None = None,
    ) -> None:
        self._tx = tx
        self._queue = queue
        self._returned = returned
        self.position = position
        self._read_to = position  # every row below it has been read
        self._end = end
        self._page_size = page_size
        self._page: list[tuple[int, Delivered]] = []
        if page is not None and (page.queue.id, page.position) == (queue.id, position):
            self._turn_to(page)

    async def take(self, until: int, most: int = CLAIM_BYTES) -> list[tuple[int, Delivered]]:
        """The messages from the position up to `until`, each with its offset here; fewer past `most` bytes of them."""
        taken: list[tuple[int, Delivered]] = []
        weight = 0
        while self.position < until:
            if not self._page and self._read_to <= self.position:
                await self._read()
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

    def skip_to(self, position: int) -> None:
        """Goes on at a later offset."""
        self._page = [(offset, message) for offset, message in self._page if offset >= position]
        self.position = max(self.position, position)
        self._read_to = max(self._read_to, self.position)

    def skip_hole(self) -> None:
        """Goes on at the next message, past those that are gone, as far as that is known."""
        if self._page:
            self.position = max(self.position, self._page[0][0])

    async def _read(self) -> None:
        page = Page.of(self._queue, self.position, self._end, self._page_size, returned=self._returned)
        await self._tx.fetch_all([page.asked])
        self._turn_to(page)

    def _turn_to(self, page: Page) -> None:
        messages = page.messages
        # What lies behind the end may have been committed since the end was read: it is for the next turn.
        self._page = [found for found in messages if found[0] < self._end]
        self._read_to = min(messages[-1][0] + 1, self._end) if len(messages) == page.limit else self._end


async def pull(tx: Transaction, queue: Queue, offset: int, limit: int) -> list[Delivered]:
    """Messages of a topic's own queue from an offset on, past what retention has taken. Raises `TopicGone`."""
    end = await end_of(tx, queue.id)
    for _, floor in await tx.fetch("cleaned.find", tuple[int, int], [queue.id]):
        offset = max(offset, floor)  # what lay below is past its time and gone
    stretch = Stretch(tx, queue, offset, end, min(PAGE, limit))
    while stretch.position < end:
        if found := await stretch.take(min(stretch.position + limit, end)):
            return [message for _, message in found]
        stretch.skip_hole()
    return []
