"""The cleaner: removes rows that are past their retention every minute, in small batches with pauses between them.

Messages that are kept for less than a minute are removed every few seconds. `store.cleaning.leftovers` finds where
there may be rows to remove; `store.cleaning.retention` knows which rows may go, and how to remove them without delaying
others. This file paces, counts and logs. The cleaner starts once the wheel is loaded, pauses while due messages are
late, and can be stopped between two batches.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import structlog
import trio
from attrs import define, field

from ...store.cleaning import leftovers, retention
from ...store.cleaning.leftovers import Leftovers, LeftShards
from ...store.cleaning.retention import Limits, Removed
from ...store.errors import Locked, StoreError
from ...store.ports import Transaction
from ...store.records import Group, Topic
from ...store.store import Store
from ..clock import Clock
from ..engine.state.cleaning_notes import CleaningNotes
from ..engine.state.directory import Directory
from ..engine.state.pending import Pending
from ..metrics import Metrics
from ..settings import Settings

EVERY, EVERY_SHORT = 60, 5
"""Seconds between two rounds: of everything, and of messages that are kept for less than that."""
BATCH = 100
"""The most rows that one transaction removes."""
TOPICS = 2000
"""The most topics that one round looks at."""
QUEUES = 1000
"""About how many queues the topics have that are looked at together."""
REST = 0.01
"""Seconds between two batches of one place, so that writers come first."""

log = structlog.get_logger()


class Batch(Protocol):
    """A function of `store.cleaning.retention` of which only the time and the starting place are still to be given."""

    def __call__(self, tx: Transaction, *, now: int, start: int) -> Coroutine[Any, Any, Removed]: ...


@define
class _Target:
    """A table, queue or log that is cleaned from its beginning."""

    what: str
    batch: Batch
    key: tuple[object, ...]
    log_of: int | None = None
    """The group whose log it is. The next round begins where this one ended, since entries before that need no second
    look."""


@define(eq=False)
class Cleaner:
    _store: Store
    _directory: Directory
    _clock: Clock
    _metrics: Metrics
    _settings: Settings
    _pending: Pending
    _notes: CleaningNotes
    _stopping: bool = field(default=False, init=False)
    _behind: int = field(default=0, init=False)
    """The id of the topic at which the last round ended."""

    def stop(self) -> None:
        self._stopping = True

    async def write_seen(self) -> None:
        """Writes to the store which groups were used at this node. Raises `StoreError`."""
        if not self._notes.asked_for:
            return
        asked_for, self._notes.asked_for = self._notes.asked_for, set()
        try:
            await self._store.write(retention.see, sorted(asked_for), self._clock.now())
        except StoreError as error:
            self._notes.asked_for |= asked_for
            if not isinstance(error, Locked):
                raise

    async def clean(self) -> None:
        """Runs one round. Raises `StoreError`; the rest is left to the next round."""
        await self.write_seen()
        limits = self._limits
        total: Counter[str] = Counter()
        began = self._clock.now()
        try:
            for topics in self._some_topics():
                if self._stopping:
                    break
                groups = [group for topic in topics for group in self._directory.groups_of(topic)]
                left = await self._store.read(leftovers.find_leftovers, topics, groups)
                await self._clean_all(self._places_of_topics(topics, groups, left, limits), total)
            if not self._stopping:
                shards = await self._store.read(leftovers.find_shards)
                await self._clean_all(_places_of_shards(shards, limits), total)
        finally:
            if removed := {what: rows for what, rows in total.items() if rows}:
                log.info("cleaned", **removed, took_ms=self._clock.now() - began)

    async def clean_short(self) -> None:
        """Runs a round of only those topics whose messages are kept for less than a minute. Raises `StoreError`."""
        limits = self._limits
        topics: list[Topic] = []
        for number, id_ in enumerate(self._directory.topic_ids):
            if number % QUEUES == QUEUES - 1:
                await trio.lowlevel.checkpoint()
            topic = self._directory.topic_by_id(id_)
            if topic is not None and self._is_short(topic, limits):
                topics.append(topic)
        topics = topics[:TOPICS]  # the round of every minute cleans the others
        if not topics or self._stopping:
            return
        left = await self._store.read(leftovers.find_leftovers, topics, [])
        await self._clean_all(self._places_of_topics(topics, [], left, limits), Counter())

    def _is_short(self, topic: Topic, limits: Limits) -> bool:
        keep, _ = limits.of(topic)
        if keep >= EVERY * 1000:
            return False
        if topic.kind == "broadcast" or not self._directory.groups_of(topic):
            return limits.retention < EVERY * 1000  # then its messages are kept for the default retention
        return True

    @property
    def _limits(self) -> Limits:
        settings = self._settings
        return Limits(settings.retention, settings.hard_retention, settings.history_retention, settings.dead_retention)

    async def _clean_all(self, places: Iterable[_Target], total: Counter[str]) -> None:
        for place in places:
            if self._stopping:
                break
            try:
                total[place.what] += await self._clean(place)
            except Locked as error:  # the other places need not wait for this one; the next round looks at it again
                log.warning("cleaning_met_a_lock", what=place.what, key=place.key[1:], error=str(error))

    async def _clean(self, place: _Target) -> int:
        start = self._notes.starts.get(place.key, 0)
        rows = 0
        while not self._stopping:
            if self._pending.is_late:
                break  # due messages come first; the next round goes on
            done = await self._store.write(partial(place.batch, now=self._clock.now(), start=start))
            rows += done.rows
            start = done.next
            self._metrics.cleaned(place.what, done.rows)
            self._tell(done)
            if place.log_of is not None and self._directory.group_by_id(place.log_of) is not None:
                self._notes.starts[place.key] = start
            if done.done:
                break
            await trio.sleep(REST)
        return rows

    def _tell(self, done: Removed) -> None:
        for group_id, messages in done.expired.items():
            group = self._directory.group_by_id(group_id)
            if group is not None:
                self._metrics.of_group("expired", group.topic.name, group.name, messages)
                log.warning("messages_expired", topic=group.topic.name, group=group.name, messages=messages)

    def _some_topics(self) -> Iterator[list[Topic]]:
        """The topics of this round, in groups; rounds take turns, since one over very many idle topics would never
        end."""
        ids = self._directory.topic_ids
        begin = bisect_right(ids, self._behind)
        some: list[Topic] = []
        queues = 0
        for id_ in [*ids[begin : begin + TOPICS], *ids[: max(0, min(begin, begin + TOPICS - len(ids)))]]:
            self._behind = id_
            if (topic := self._directory.topic_by_id(id_)) is None:
                continue
            some.append(topic)
            queues += len(topic.queues)
            if queues >= QUEUES:
                yield some
                some, queues = [], 0
        yield some

    def _places_of_topics(
        self, topics: Sequence[Topic], groups: Sequence[Group], left: Leftovers, limits: Limits
    ) -> Iterator[_Target]:
        for topic in topics:
            for queue in topic.queues:
                if queue.id in left.queues:
                    messages = partial(retention.clean_messages, topic=topic, queue=queue, limits=limits, limit=BATCH)
                    yield _Target("messages", messages, ("messages", queue.id))
        for group in groups:
            yield from self._places_of(group, left, limits)

    def _places_of(self, group: Group, left: Leftovers, limits: Limits) -> Iterator[_Target]:
        for queue in group.retry_queues:
            if queue.id in left.queues:
                returns = partial(retention.clean_returns, group=group, queue=queue, limits=limits, limit=BATCH)
                yield _Target("returns", returns, ("returns", queue.id))
        for queue_id in group.queue_ids:
            end = left.logs.get((group.id, queue_id), 0)
            for what, batch in (("deliveries", retention.clean_deliveries), ("seeks", retention.clean_seeks)):
                key = (what, group.id, queue_id)
                if self._notes.starts.get(key, 0) < end:
                    log_of = partial(batch, group_id=group.id, queue_id=queue_id, limits=limits, limit=BATCH)
                    yield _Target(what, log_of, key, log_of=group.id)
        if group.topic.kind == "broadcast":
            readers = partial(retention.clean_readers, group=group, limits=limits, limit=BATCH)
            yield _Target("readers", readers, ("readers", group.id))
        if group.id in left.letters:
            dead = partial(retention.clean_dead, group_id=group.id, limits=limits, limit=BATCH)
            yield _Target("dead", dead, ("dead", group.id))


def _places_of_shards(left: LeftShards, limits: Limits) -> Iterator[_Target]:
    for shard in sorted(left.cancelled):
        cancelled = partial(retention.clean_cancelled, shard=shard, limits=limits, limit=BATCH)
        yield _Target("cancelled", cancelled, ("cancelled", shard))
    for shard in sorted(left.moved):
        moved = partial(retention.clean_moved, shard=shard, limit=BATCH)
        yield _Target("moved", moved, ("moved", shard))
