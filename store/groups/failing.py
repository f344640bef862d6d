"""Moves the failed messages of a turn: onto their next rung, or to the dead letters after the last one. In an ordered
topic messages behind a failed one are parked."""

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from attrs import define, evolve, field

from ..expiry import is_past
from ..history import Attempt, attempts_of, written
from ..ids import due_of, shard_of
from ..ports import Transaction, Value
from ..records import Group, Outcome, Settlement
from ..rows import Source
from .locked_rows import LockedRows
from .order import Order, first_source
from .settling import Failure

_REMEMBERED = 99
"""A message that blocks its key may fail for ever: it keeps at least this many of its first failures, and the last."""
FREE_LOSSES = 16
"""How many times in a row a message that was not begun comes back uncounted when its client dies. After that, the
client is taken not to report what it begins."""
_LAST_REST = 1000
"""Milliseconds between the attempts of a message that blocks its key, when the ladder has no rung."""


@define
class Failing:
    """Moves the failures of a turn."""

    group: Group
    now: int
    make_id: Callable[[int], int]
    """Makes the id of a retry from its due time."""
    locked: LockedRows
    order: Order | None
    _retries: list[Sequence[Value]] = field(factory=list[Sequence[Value]], init=False)

    async def write(self, tx: Transaction, failures: Sequence[Failure]) -> None:
        """Moves each message to its new place, and counts it."""
        sources = await self._sources(tx, failures)
        for failure in failures:
            claim = failure.claim
            source = sources.get((claim.queue_id, failure.offset))
            if source is None:
                outcome = Outcome.EXPIRED
            elif failure.behind:
                outcome = Outcome.PARKED
            else:
                outcome = await self._send_back(tx, failure, source)
            claim.settle(failure.place, outcome, self.now)
            self.locked.cursors[claim.queue_id].count(outcome)
            if self.order is not None:
                self.order.note(claim, failure.place, outcome, source)
        if self._retries:
            await tx.later_many("retry.add", self._retries)

    async def _sources(self, tx: Transaction, failures: Iterable[Failure]) -> dict[tuple[int, int], Source]:
        """The messages by the queue and offset where they were claimed, without those that retention has removed."""
        offsets: dict[int, list[int]] = defaultdict(list)
        for failure in failures:
            offsets[failure.claim.queue_id].append(failure.offset)
        sources: dict[tuple[int, int], Source] = {}
        for queue_id, some in offsets.items():
            if queue_id in self.group.retry_queue_of:
                place = (queue_id, min(some), max(some) + 1)
                for offset, id_, expires_at in await tx.fetch("message.leaving", tuple[int, int, int | None], *place):
                    sources[queue_id, offset] = first_source(queue_id, offset, id_, expires_at)
            else:
                for source in await tx.fetch("redelivery.sources", Source, queue_id, some):
                    sources[queue_id, source.offset] = source
        return sources

    async def _send_back(self, tx: Transaction, failure: Failure, source: Source) -> Outcome:
        """Puts a message onto its next rung or to the dead letters; neither, if it would be expired when it came
        back."""
        wish, lost = failure.answer.wish, failure.answer.wish.verb == "end"
        if lost and failure.unbegun and source.losses < FREE_LOSSES:
            wish = evolve(wish, retry_after=0, count=False)
        at = min(failure.claim.lease_until, self.now) if lost and wish.count else self.now  # the rung begins then
        history = source.history
        if wish.count:
            entry = Attempt(at, failure.claim.client, "lease lost" if lost else wish.reason)
            history = self._add_to(history, entry)
        rest = self._rest(source.attempt, wish)
        if rest is None:
            if not await self._to_dead_letters(tx, failure, source, history):
                return Outcome.EXPIRED
            failure.answer.dead += 1
            return Outcome.LOST_DEAD if lost else Outcome.DEAD
        if is_past(source.expires_at, max(at + rest, self.now)):
            return Outcome.EXPIRED
        id_ = self.make_id(at + rest)
        retry_queue = self.group.retry_queue_of[source.message_queue_id]
        self._retries.append(
            (
                shard_of(id_),
                id_,
                self.group.id,
                retry_queue.id,
                source.message_queue_id,
                source.message_offset,
                source.message_id,
                source.attempt + wish.count,
                history,
                at,
                source.losses + 1 if lost else 0,
            )
        )
        failure.answer.timers.append((due_of(id_), ~id_))
        if not wish.count:
            return Outcome.SUSPENDED
        return Outcome.LOST if lost else Outcome.RETRIED

    def _add_to(self, history: bytes, entry: Attempt) -> bytes:
        before = attempts_of(history)
        if self.group.block:  # the message may fail for ever
            before = before[: max(len(self.group.ladder.rungs), _REMEMBERED)]
        return written([*before, entry])

    def _rest(self, attempt: int, wish: Settlement) -> int | None:
        """Milliseconds until the message comes again after this failed attempt; None: the ladder is exhausted."""
        ladder = self.group.ladder
        rest = ladder.rung(max(1, attempt))
        if rest is None and self.order is not None and self.group.block:
            rest = ladder.rungs[-1] if ladder.rungs else _LAST_REST
        if rest is None and not wish.count:
            rest = ladder.rungs[-1] if ladder.rungs else 0
        if rest is None:
            return None
        if wish.retry_after is not None:
            return wish.retry_after
        return rest + secrets.randbelow(ladder.longest(rest) - rest + 1) if ladder.jitter else rest

    async def _to_dead_letters(self, tx: Transaction, failure: Failure, source: Source, history: bytes) -> bool:
        """Moves a message to the dead letters; returns False when retention removed it at this very moment."""
        cleared = await tx.execute("dead.remove", self.group.id, source.message_id)
        place = (source.message_queue_id, source.message_offset)
        copied = await tx.execute("dead.add", self.group.id, self.now, history, *place)
        if cleared:
            await tx.execute("cursor.cleared", 1, self.group.id, failure.claim.queue_id)
        return copied > 0
