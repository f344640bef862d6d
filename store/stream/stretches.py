"""Stretches of a queue, read in pages: a claim's messages, or a pull by the reader's own offset."""

from collections.abc import Sequence

from attrs import frozen

from ..operating.positions import end_of
from ..ports import Row, Transaction
from ..records import Delivered, Queue
from ..text import decode

PAGE = 256
"""Messages read at a time: with bodies at their limit, 64 MiB."""
CLAIM_BYTES = 8 << 20
"""A claim stops growing past this many bytes of bodies."""


@frozen
class Page:
    """Messages of a queue, read from an offset on before it was known that they would be asked for."""

    queue_id: int
    position: int
    limit: int
    rows: Sequence[Row]
    """As many as there were; `limit` at most."""


class Stretch:
    """Reads a stretch of a queue in pages, so that neighbouring claims share them."""

    def __init__(
        self,
        tx: Transaction,
        queue: Queue,
        query: str,
        position: int,
        end: int,
        page_size: int,
        page: Page | None = None,
    ) -> None:
        self._tx = tx
        self._queue = queue
        self.query = query
        self.position = position
        self._read_to = position  # every row below it has been read
        self._end = end
        self._page_size = page_size
        self._page: list[tuple[int, Delivered]] = []
        if page is not None and (page.queue_id, page.position) == (queue.id, position):
            self._turn_to(page.rows, page.limit)

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
        rows = await self._tx.fetch(self.query, self._queue.id, self.position, self._end, self._page_size)
        self._turn_to(rows, self._page_size)

    def _turn_to(self, rows: Sequence[Row], limit: int) -> None:
        # What lies behind the end may have been committed since the end was read: it is for the next turn.
        self._page = [(row[0], self._delivered(row)) for row in rows if row[0] < self._end]
        self._read_to = min(rows[-1][0] + 1, self._end) if len(rows) == limit else self._end

    def _delivered(self, row: Row) -> Delivered:
        offset, id_, key, ordering_key, tag, headers, content_type, body, accepted_at, deliver_at, streamed_at = row[
            :11
        ]
        attempt, source = (row[11], row[13]) if len(row) > 11 else (1, offset)
        return Delivered(
            id=id_,
            queue=self._queue.number,
            offset=source,
            attempt=attempt,
            key=decode(key),
            ordering_key=decode(ordering_key),
            tag=decode(tag),
            headers=headers,
            content_type=decode(content_type),
            body=body,
            published_at=accepted_at,
            deliver_at=deliver_at,
            streamed_at=streamed_at,
        )


async def pull(tx: Transaction, queue: Queue, offset: int, limit: int) -> list[Delivered]:
    """Messages of a topic's own queue from an offset on, past what retention has taken. Raises `TopicGone`."""
    end = await end_of(tx, queue.id)
    for _, floor in await tx.fetch("cleaned.find", [queue.id]):
        offset = max(offset, floor)  # what lay below is past its time and gone
    stretch = Stretch(tx, queue, "message.range", offset, end, min(PAGE, limit))
    while stretch.position < end:
        if found := await stretch.take(min(stretch.position + limit, end)):
            return [message for _, message in found]
        stretch.skip_hole()
    return []
