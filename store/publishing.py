"""Accepting messages: many requests in one transaction, each of them all or none.

A message for later is a row of `delay`. A message for now goes straight to the stream: the queue's sequence row is
locked last, its offsets are drawn, and the lock is held until the commit, so that commit order is offset order.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec
from attrs import define, evolve, frozen

from .errors import DuplicateKey
from .ids import MAX_MS, IdMaker, due_of, random_nonce, shard_for, shard_of
from .ports import Row, Transaction, Value
from .records import Conflict, Draft, Publication, Receipt
from .text import encode

_HORIZON_OF_IDS = MAX_MS - 1000


@frozen
class _Written:
    """A draft with the identity it was given."""

    draft: Draft
    id: int
    nonce: int
    offset: int | None = None

    def receipt(self, now: int) -> Receipt:
        if self.offset is None:
            due = due_of(self.id)
            return Receipt(self.id, "scheduled", self.draft.deliver_at or due, due)
        at = now if self.draft.deliver_at is None else self.draft.deliver_at
        return Receipt(self.id, "published", at, at, self.draft.queue.number, self.offset)


@define
class Publishing:
    """One run of one batch; made anew when the transaction is run again."""

    ids: IdMaker
    now: int
    window: int
    """How long an idempotency key is remembered, milliseconds."""
    maker: int
    """Whose tally rows are counted in."""
    spread: int = 0
    """How many milliseconds later an id may be made, after a duplicate key."""
    witness: tuple[int, int] | None = None
    """(id, nonce) of one row of this run: it is there if and only if the transaction is."""

    async def write(self, tx: Transaction, publications: Sequence[Publication]) -> list[list[Receipt] | Conflict]:
        """Writes the batch; a publication whose idempotency key is known is answered from its first answer."""
        answers = await self._replays(tx, publications)
        fresh = [index for index, answer in enumerate(answers) if answer is None]
        first_of_key: dict[tuple[int, str], int] = {}
        twins: list[tuple[int, int]] = []
        written: dict[int, list[_Written]] = {}
        for index in fresh:
            publication = publications[index]
            if publication.idempotency_key is not None:
                key = (publication.drafts[0].topic.id, publication.idempotency_key)
                if key in first_of_key:
                    twins.append((index, first_of_key[key]))
                    continue
                first_of_key[key] = index
            written[index] = [self._identify(draft) for draft in publication.drafts]
        await self._add_delays(tx, [w for ws in written.values() for w in ws if self._waits(w.draft)])
        await self._count(tx, [w.draft for ws in written.values() for w in ws])
        written = await self._stream(tx, written)
        receipts = {index: [w.receipt(self.now) for w in ws] for index, ws in written.items()}
        await self._remember(tx, [(publications[index], receipts[index]) for index in first_of_key.values()])
        for index, mine in receipts.items():
            answers[index] = mine
        for index, first in twins:
            answers[index] = _replay(publications[index], publications[first].fingerprint, receipts[first])
        return [answer for answer in answers if answer is not None]

    def _waits(self, draft: Draft) -> bool:
        return draft.deliver_at is not None and draft.deliver_at > self.now

    def _identify(self, draft: Draft) -> _Written:
        waits = self._waits(draft)
        due = min(draft.deliver_at or 0, _HORIZON_OF_IDS) if waits else self.now
        shard = None if draft.ordering_key is None else shard_for(draft.topic.id, draft.ordering_key)
        written = _Written(
            draft, self.ids.make(due, shard=shard, straight=not waits, spread=self.spread), random_nonce()
        )
        self.witness = (written.id, written.nonce)
        return written

    async def _replays(
        self, tx: Transaction, publications: Sequence[Publication]
    ) -> list[list[Receipt] | Conflict | None]:
        keys: dict[int, set[str]] = defaultdict(set)
        for publication in publications:
            if publication.idempotency_key is not None:
                keys[publication.drafts[0].topic.id].add(publication.idempotency_key)
        known: dict[tuple[int, str], Row] = {}
        for topic_id in sorted(keys):
            over: list[bytes] = []
            for row in await tx.fetch("idempotency.find", topic_id, sorted(key.encode() for key in keys[topic_id])):
                if row[3] <= self.now:
                    over.append(row[0])
                else:
                    known[topic_id, row[0].decode()] = row
            if over:
                await tx.execute("idempotency.remove", topic_id, over)
        answers: list[list[Receipt] | Conflict | None] = []
        for publication in publications:
            first = known.get((publication.drafts[0].topic.id, publication.idempotency_key or ""))
            if publication.idempotency_key is None or first is None:
                answers.append(None)
            else:
                answers.append(_replay(publication, first[1], _decode_receipts(first[2])))
        return answers

    async def _add_delays(self, tx: Transaction, waiting: Sequence[_Written]) -> None:
        if waiting:
            await tx.execute_many("delay.add", [self._delay_row(w) for w in waiting])
            # A message keeps its id when it leaves `delay`: who is given it again could be cancelled in its stead.
            ids = [w.id for w in waiting]
            if await tx.fetch("delay.used", ids, ids):
                raise DuplicateKey("an id is that of a message which was cancelled or promoted before")

    def _delay_row(self, written: _Written) -> Sequence[Value]:
        draft = written.draft
        due = due_of(written.id)
        return (
            *(shard_of(written.id), written.id, due, written.nonce, draft.topic.id, draft.queue.id),
            *_content(draft),
            *(self.now, draft.deliver_at),
        )

    async def _stream(self, tx: Transaction, written: dict[int, list[_Written]]) -> dict[int, list[_Written]]:
        """Draws offsets for what goes straight to the stream, and puts everything under its key."""
        straight = [w for ws in written.values() for w in ws if not self._waits(w.draft)]
        labelled = [w for ws in written.values() for w in ws if w.draft.key is not None]
        if labelled:
            await tx.execute_many("label.add", [(w.draft.topic.id, encode(w.draft.key), w.id) for w in labelled])
        if not straight:
            return written
        ends = await draw_offsets(tx, [w.draft.queue.id for w in straight])
        placed: dict[int, list[_Written]] = {}
        rows: list[Sequence[Value]] = []
        for index, ws in written.items():
            placed[index] = []
            for w in ws:
                if self._waits(w.draft):
                    placed[index].append(w)
                    continue
                offset = ends[w.draft.queue.id]
                ends[w.draft.queue.id] += 1
                placed[index].append(evolve(w, offset=offset))
                at = self.now if w.draft.deliver_at is None else w.draft.deliver_at
                rows.append((w.draft.queue.id, offset, w.id, w.nonce, *_content(w.draft), self.now, at, self.now))
        await tx.execute_many("message.add", rows)
        return placed

    async def _count(self, tx: Transaction, drafts: Iterable[Draft]) -> None:
        accepted: dict[int, int] = defaultdict(int)
        for draft in drafts:
            accepted[draft.topic.id] += 1
        for topic_id in sorted(accepted):
            await count(tx, topic_id, self.maker, accepted=accepted[topic_id])

    async def _remember(self, tx: Transaction, answered: Iterable[tuple[Publication, list[Receipt]]]) -> None:
        rows: list[Sequence[Value]] = [
            (
                publication.drafts[0].topic.id,
                encode(publication.idempotency_key),
                publication.fingerprint,
                _encode_receipts(receipts),
                self.now + self.window,
            )
            for publication, receipts in answered
        ]
        if rows:
            await tx.execute_many("idempotency.add", rows)

    async def landed(self, tx: Transaction, _answers: object) -> bool:
        """Whether this run's transaction is in the database, after the answer to its COMMIT was lost."""
        if self.witness is None:
            return True  # nothing but replays: there was nothing to write
        id_, nonce = self.witness
        return bool(
            await tx.fetch("delay.landed", shard_of(id_), id_, nonce)
            or await tx.fetch("message.landed", id_, nonce)
            or await tx.fetch("cancelled.landed", shard_of(id_), id_, nonce)
        )


async def draw_offsets(tx: Transaction, queue_ids: Sequence[int]) -> dict[int, int]:
    """Locks the sequences of these queues, one entry a message, and moves them on; returns where each begins."""
    drawn: dict[int, int] = defaultdict(int)
    for queue_id in queue_ids:
        drawn[queue_id] += 1
    begins: dict[int, int] = {}
    for queue_id, next_offset in await tx.fetch("queue.lock", sorted(drawn)):
        begins[queue_id] = next_offset
        await tx.execute("queue.advance", next_offset + drawn[queue_id], queue_id)
    return begins


async def count(tx: Transaction, topic_id: int, maker: int, *, accepted: int = 0, cancelled: int = 0) -> None:
    """Adds to a topic's tally under this maker's own row."""
    if not await tx.execute("tally.count", accepted, cancelled, topic_id, maker):
        await tx.execute_many("tally.add", [(topic_id, maker, 0, 0)])  # two may come first at once
        await tx.execute("tally.count", accepted, cancelled, topic_id, maker)


async def forget(tx: Transaction, now: int, limit: int) -> int:
    """Removes a batch of idempotency keys whose window is over; returns how many."""
    past: dict[int, list[bytes]] = defaultdict(list)
    for topic_id, key in await tx.fetch("idempotency.past", now, limit):
        past[topic_id].append(key)
    return sum(
        [await tx.execute("idempotency.forget", topic_id, sorted(past[topic_id]), now) for topic_id in sorted(past)]
    )


def _content(draft: Draft) -> tuple[Value, ...]:
    return (
        encode(draft.key),
        encode(draft.ordering_key),
        encode(draft.tag),
        draft.headers,
        encode(draft.content_type),
        draft.body,
    )


def _replay(publication: Publication, fingerprint: bytes, receipts: list[Receipt]) -> list[Receipt] | Conflict:
    if fingerprint != publication.fingerprint:
        return Conflict(publication.idempotency_key or "")
    return [evolve(receipt, replayed=True) for receipt in receipts]


def _encode_receipts(receipts: Sequence[Receipt]) -> bytes:
    return msgspec.json.encode([(r.id, r.state, r.deliver_at, r.due, r.queue, r.offset) for r in receipts])


def _decode_receipts(text: bytes) -> list[Receipt]:
    return [Receipt(*fields) for fields in msgspec.json.decode(text)]
