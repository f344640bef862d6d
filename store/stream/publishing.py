"""Accepts messages of many requests in one transaction; of each request all messages are accepted or none.

A message for later becomes a row of `delay`. A message for now goes straight to the stream: the queue's sequence row is
locked last, offsets are drawn, and the lock is held until the commit, so that commit order is offset order.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import compress, islice
from typing import Any, TypeVar

import msgspec
from attrs import define, field

from ..content import are_bare, columns
from ..errors import DuplicateKey, TopicGone
from ..ids import MAX_MS, IdMaker, apart, due_of, random_nonces, shard_for, shard_of
from ..ports import Offsets, Queries, Transaction, Value
from ..records import Conflict, Draft, Publication, Receipt
from ..rows import GUARDED, encode
from ..timers import forecast
from . import idempotency
from .offsets import lock_free
from .placing import shard_of_order
from .tallies import count, locked_tallies

LATEST_DUE = MAX_MS - 1000
T = TypeVar("T")


_Answer = list[Receipt] | Conflict


class _Written(msgspec.Struct):
    """A draft with the id and the nonce that it was given."""

    draft: Draft
    waits: bool
    id: int
    nonce: int
    at: int
    """Its delivery time."""
    row: int = 0
    """Its number among the rows of its queue, if it goes straight to the stream."""


@define
class Publishing:
    """One run of one batch, made anew for each run. `write` it in a transaction; after the commit it has `answers`."""

    ids: IdMaker
    now: int
    window: int
    """How long an idempotency key is remembered, milliseconds."""
    tally_shard: int
    """The shard of the tally rows to count in."""
    spread: int = 0
    """How many milliseconds later an id may be made, after a duplicate key."""
    made: list[int] = field(factory=list[int])
    """Ids of all drafts of the batch. A later run of the same batch gets the ids of the run before: whatever becomes of
    a COMMIT, a message has one id."""
    free: bool = False
    """Whether publications that need a locked row are left out instead of waited for."""
    look: bool = True
    """Whether idempotency keys are looked up first. If not, a known one raises `DuplicateKey`."""
    _publications: Sequence[Publication] = field(default=(), init=False)
    _answers: list[_Answer | None] = field(factory=list[_Answer | None], init=False)
    _fresh: list[int] = field(factory=list[int], init=False)
    """The indexes of the publications that are written."""
    _written: list[_Written] = field(factory=list[_Written], init=False)
    """Their drafts, in order."""
    _twins: list[tuple[int, int]] = field(factory=list[tuple[int, int]], init=False)
    """Publications with the idempotency key of an earlier one in the batch, as pairs of their indexes."""
    _offsets: Offsets | None = field(default=None, init=False)
    """The offsets of messages that go straight to the stream."""

    def answers(self) -> list[_Answer | None]:
        """The answer to each publication, once the batch is committed; None for one that was left out."""
        answers, publications = self._answers, self._publications
        receipts = self._by_publication([self._receipt(one) for one in self._written])
        for index, (_, some) in zip(self._fresh, receipts, strict=True):
            answers[index] = some
        for index, first in self._twins:
            answers[index] = _replay(publications[index], publications[first].fingerprint, answers[first])
        return answers

    async def write(self, tx: Transaction, publications: Sequence[Publication]) -> None:
        """Writes the batch; a publication with a known idempotency key gets the first answer again."""
        self._publications = publications
        answers = self._answers = await self._replays(tx, publications)
        locked = set[int]()
        if self.free:
            unanswered = [one for one, answer in zip(publications, answers, strict=True) if answer is None]
            locked = await self._locked(tx, unanswered)
        first_of_key: dict[tuple[int, str], int] = {}
        fresh: list[int] = []
        for index, publication in enumerate(publications):
            if answers[index] is not None or (locked and not locked.isdisjoint(self._needs(publication))):
                continue
            if publication.idempotency_key is not None:
                key = (publication.drafts[0].topic.id, publication.idempotency_key)
                if key in first_of_key:
                    self._twins.append((index, first_of_key[key]))
                    continue
                first_of_key[key] = index
            fresh.append(index)
        self._fresh = fresh
        written = self._written = self._identify(publications, fresh)
        waiting = [one for one in written if one.waits]
        if waiting:
            special = are_special(one.draft for one in waiting)
            how = {"bare": not special and are_bare([one.draft for one in waiting]), "special": special}
            rows = [waiting_row(one.draft, one.id, one.nonce, self.now, **how) for one in waiting]
            await add_waiting(tx, rows, **how)
            await self._count(tx, waiting)
        await self._label(tx, [one for one in written if one.draft.key is not None])
        await self._stream(tx, [one for one in written if not one.waits] if waiting else written)
        if first_of_key:
            await self._remember(tx)

    def _waits(self, draft: Draft) -> bool:
        return (draft.deliver_at is not None and draft.deliver_at > self.now) or draft.guard is not None

    def _needs(self, publication: Publication) -> set[int]:
        """The rows that it must lock: ids of queues whose offsets it draws, and negated ids of topics that it counts
        in."""
        return {-draft.topic.id if self._waits(draft) else draft.queue.id for draft in publication.drafts}

    async def _locked(self, tx: Transaction, publications: Iterable[Publication]) -> set[int]:
        """The rows among those that another transaction holds; the others are locked from here on."""
        needed = {one for publication in publications for one in self._needs(publication)}
        tallies = await locked_tallies(tx, {-one for one in needed if one < 0}, self.tally_shard)
        _, queues = await lock_free(tx, {one for one in needed if one > 0})
        return queues | {-topic_id for topic_id in tallies}

    def _identify(self, publications: Sequence[Publication], fresh: Sequence[int]) -> list[_Written]:
        """The drafts of the publications that are written, in order, with ids and nonces."""
        drafts, now = [draft for publication in publications for draft in publication.drafts], self.now
        ids = self.made or self._make_ids(drafts)
        if len(fresh) < len(publications):  # the others are answered already, or left out
            chosen = set(fresh)
            these = [index in chosen for index, publication in enumerate(publications) for _ in publication.drafts]
            drafts, ids = list(compress(drafts, these)), list(compress(ids, these))
        return [
            _Written(draft, draft.guard is not None, id_, nonce, now)
            if (deliver_at := draft.deliver_at) is None
            else _Written(draft, deliver_at > now or draft.guard is not None, id_, nonce, deliver_at)
            for draft, id_, nonce in zip(drafts, ids, random_nonces(len(drafts)), strict=True)
        ]

    def _make_ids(self, drafts: Sequence[Draft]) -> list[int]:
        if self.spread:
            self.ids.anew()
        # Most drafts go straight to the stream in any order: their ids are made together.
        plain = iter(() if self.spread else self.ids.make_some(self.now, len(drafts), straight=True))
        self.made += [
            next(plain, 0) or self._id(draft)
            if draft.deliver_at is None and draft.ordering_key is None and draft.guard is None
            else self._id(draft)
            for draft in drafts
        ]
        return self.made

    def _id(self, draft: Draft) -> int:
        if self._waits(draft):
            return waiting_id(self.ids, draft, max(draft.deliver_at or 0, self.now), self.spread)
        shard = None if draft.ordering_key is None else shard_for(draft.topic.id, draft.ordering_key)
        return self.ids.make(self.now, shard=shard, straight=True, spread=self.spread)

    def _receipt(self, written: _Written) -> Receipt:
        if self._offsets is None or written.waits:
            return Receipt(written.id, "scheduled", written.at, due_of(written.id))
        queue = written.draft.queue
        offset = self._offsets.begin(queue.id) + written.row
        return Receipt(written.id, "published", written.at, written.at, queue.number, offset)

    async def _replays(self, tx: Transaction, publications: Sequence[Publication]) -> list[_Answer | None]:
        if not self.look or all(publication.idempotency_key is None for publication in publications):
            return [None] * len(publications)
        keys: dict[int, set[str]] = defaultdict(set)
        for publication in publications:
            if publication.idempotency_key is not None:
                keys[publication.drafts[0].topic.id].add(publication.idempotency_key)
        known = await idempotency.known(tx, keys, self.now)
        answers: list[_Answer | None] = []
        for publication in publications:
            named = publication.idempotency_key
            if named is None or (first := known.get((publication.drafts[0].topic.id, named))) is None:
                answers.append(None)
            else:
                same = first[0] == publication.fingerprint  # else the answer may be of another kind of request
                answers.append(_replay(publication, first[0], _decode_receipts(first[1]) if same else None))
        return answers

    async def _label(self, tx: Transaction, labelled: Sequence[_Written]) -> None:
        if labelled:
            rows = [(one.draft.topic.id, encode(one.draft.key), one.id) for one in labelled]
            await tx.later_many("label.add", rows)

    async def _stream(self, tx: Transaction, straight: Sequence[_Written]) -> None:
        """Draws offsets for the messages that go straight to the stream, and inserts them."""
        if not straight:
            return
        queues: dict[int, list[_Written]] = defaultdict(list)
        for one in straight:
            ones = queues[one.draft.queue.id]
            one.row = len(ones)
            ones.append(one)
        bare = are_bare([one.draft for one in straight])
        rows_of = self._bare_rows if bare else self._message_rows
        rows = {queue_id: rows_of(ones) for queue_id, ones in queues.items()}
        self._offsets = await tx.append("message.add_bare" if bare else "message.add", rows, straight=True)

    def _message_rows(self, written: Iterable[_Written]) -> list[Sequence[Value]]:
        now = self.now
        return [(one.id, one.nonce, *columns(one.draft), one.draft.body, now, one.at, now) for one in written]

    def _bare_rows(self, written: Iterable[_Written]) -> list[Sequence[Value]]:
        now = self.now
        return [(one.id, one.nonce, one.draft.body, now, one.at, now) for one in written]

    async def _count(self, tx: Transaction, waiting: Iterable[_Written]) -> None:
        topics = Counter(one.draft.topic.id for one in waiting)
        for topic_id in sorted(topics):
            if not await count(tx, topic_id, self.tally_shard, scheduled=topics[topic_id]):
                raise TopicGone("the topic has been removed meanwhile")
        await forecast.tell(tx, self.now, [(one.draft.topic.id, due_of(one.id)) for one in waiting])

    def _by_publication(self, ones: Iterable[T]) -> Iterable[tuple[Publication, list[T]]]:
        """Groups items, of which there is one for each written draft, by their publications."""
        rest = iter(ones)
        for index in self._fresh:
            publication = self._publications[index]
            yield publication, list(islice(rest, len(publication.drafts)))

    async def _remember(self, tx: Transaction) -> None:
        expires_at = self.now + self.window
        rows: list[Sequence[Value]] = [
            (
                one.drafts[0].topic.id,
                encode(one.idempotency_key),
                one.fingerprint,
                self._encode_receipts(some),
                expires_at,
            )
            for one, some in self._by_publication(self._written)
            if one.idempotency_key is not None
        ]
        await tx.later_many("idempotency.add", rows)

    def _encode_receipts(self, written: Sequence[_Written]) -> Any:
        """The receipts as `_decode_receipts` reads them; the store puts the offsets in."""
        if self._offsets is None:
            return _encode_json([(one.id, "scheduled", one.at, due_of(one.id), None, None) for one in written])
        text: list[bytes | tuple[int, int]] = []
        between = b"["
        for one in written:
            if one.waits:
                text.append(between + _encode_json((one.id, "scheduled", one.at, due_of(one.id), None, None)))
                between = b","
            else:
                queue = one.draft.queue
                known = _encode_json((one.id, "published", one.at, one.at, queue.number))
                text += [between + known[:-1] + b",", (queue.id, one.row)]
                between = b"],"
        text.append(b"]]" if between == b"]," else b"]")
        return self._offsets.written(text)


def waiting_id(ids: IdMaker, draft: Draft, due: int, spread: int) -> int:
    """An id for a message that waits until `due`, Unix milliseconds."""
    topic = draft.topic
    shard = shard_of_order(topic.id, draft.ordering_key, draft.queue.id, ordered=topic.ordered)
    # In an ordered topic a later time would put it behind others of its order: only its count is drawn anew there.
    return ids.make(min(due, LATEST_DUE), shard=shard, spread=0 if topic.ordered else spread)


def waiting_row(
    draft: Draft, id_: int, nonce: int, now: int, *, bare: bool = False, special: bool = False
) -> Sequence[Value]:
    """A row of `delay`."""
    place = (shard_of(id_), id_, due_of(id_), nonce, draft.topic.id, draft.queue.id)
    times = (now, now if draft.deliver_at is None else draft.deliver_at)
    if bare:
        return (*place, draft.body, *times)
    more = () if not special else (0, None) if draft.guard is None else (GUARDED, draft.guard.encode())
    return (*place, *columns(draft), draft.body, *times, *more)


def are_special(drafts: Iterable[Draft | None]) -> bool:
    """Whether promotion must do more with one of these drafts than move it: it has a guard."""
    return any(draft is not None and draft.guard is not None for draft in drafts)


async def add_waiting(
    tx: Queries, rows: Sequence[Sequence[Value]], *, bare: bool = False, special: bool = False
) -> None:
    """Inserts rows of `delay`: `bare` ones lack the columns that a message with only a body does not have; `special`
    ones have the columns that tell promotion what else to do.

    Raises `DuplicateKey` when another message has one of their ids, or had it.
    """
    await tx.execute_many("delay.add_special" if special else "delay.add_bare" if bare else "delay.add", rows)
    await refuse_used(tx, [row[1] for row in rows])


async def refuse_used(tx: Queries, ids: Sequence[Any]) -> None:
    """Raises `DuplicateKey` when a message that has left `delay` had one of these ids."""
    # A message keeps its id when it leaves `delay`: a new message with that id could be cancelled in its place.
    if await tx.fetch("delay.used", tuple[int, int], apart(ids), ids, ids):
        raise DuplicateKey("an id is that of a message which was cancelled or promoted before")


def _replay(publication: Publication, fingerprint: bytes, receipts: _Answer | None) -> _Answer:
    if not isinstance(receipts, list) or fingerprint != publication.fingerprint:
        return Conflict(publication.idempotency_key or "")
    return [msgspec.structs.replace(receipt, replayed=True) for receipt in receipts]


_encode_json = msgspec.json.Encoder().encode


def _decode_receipts(text: bytes) -> list[Receipt]:
    return [Receipt(*fields) for fields in msgspec.json.decode(text)]
