"""The remover: removes topics and groups at once, and clears away their rows in small batches with rests between them.

The clearing begins when something is removed, and the node that has the duties looks every minute, so that it goes on
after a crash. `store.cleaning.removal` says what may be cleared away, and why that holds nobody up.
"""

import structlog
import trio
from attrs import define, field

from ....store.cleaning import removal
from ....store.cleaning.removal import BEGIN, GRACE, Tombstone
from ....store.errors import Unsettled
from ....store.records import Group, Topic
from ....store.store import Store
from ...clock import Clock
from ...errors import TopicConflict, UnknownGroup, UnknownTopic
from ...outages import Trouble
from ..signals import Signals
from ..state.directory import Directory

BATCH = 1000
"""Rows to a transaction."""
REST = 0.05
"""Seconds between two batches that found something: writers come first."""

log = structlog.get_logger()


@define(eq=False)
class Remover:
    """Clears away for ever, and rests while due messages are late."""

    _store: Store
    _directory: Directory
    _clock: Clock
    _signals: Signals
    _some: trio.Event = field(factory=trio.Event, init=False)
    _clearing: trio.Lock = field(factory=trio.Lock, init=False)

    async def remove_topic(self, topic: Topic, *, force: bool) -> None:
        """Removes the topic. Raises `UnknownTopic`, and `TopicConflict` while it has messages, unless by `force`."""
        removed = False
        try:
            with trio.CancelScope(shield=True):  # a COMMIT that is cut off may have happened
                removed = await self._store.remove_topic(topic, self._clock.now(), force=force)
        except Unsettled as error:
            raise TopicConflict(str(error)) from error
        self._directory.forget_topic(topic)
        self._signals.catalogue_changed(topic.id)
        self._some.set()
        if not removed:
            raise UnknownTopic(f"topic {topic.name!r} has been removed before")
        log.info("topic_removed", topic=topic.name, force=force)

    async def remove_group(self, group: Group) -> None:
        """Removes the group. Raises `UnknownGroup`."""
        removed = False
        with trio.CancelScope(shield=True):
            removed = await self._store.write(removal.remove_group, group, self._clock.now())
        self._directory.forget_group(group)
        self._signals.catalogue_changed(group.topic.id)
        self._some.set()
        if not removed:
            raise UnknownGroup(f"group {group.name!r} of topic {group.topic.name!r} has been removed before")
        log.info("group_removed", topic=group.topic.name, group=group.name)

    async def run(self) -> None:
        """Clears away what is removed here, for ever; `clear` is for what other nodes have left."""
        trouble = Trouble(trio.current_time, step="remover")
        while True:
            await self._some.wait()
            self._some = trio.Event()
            with trouble.survived():
                await self.clear()

    async def clear(self) -> None:
        """One round over everything that was removed. Raises `StoreError`; the next round does the rest."""
        async with self._clearing:
            for stone in await self._store.read(removal.tombstones):
                began = self._clock.now()
                rows, held = await self._clear(stone)
                # More messages of a topic may come in for a moment yet; it is cleared once more.
                if not held and (stone.group_id or began >= stone.removed_at + GRACE):
                    await self._store.write(removal.drop_tombstone, stone)
                if rows:
                    facts = {"topic": stone.topic_id, "group": stone.group_id, "queue": stone.queue_id}
                    log.info("cleared", **facts, rows=rows, took_ms=self._clock.now() - began)

    async def _clear(self, stone: Tombstone) -> tuple[int, bool]:
        rows, held = 0, False
        place = BEGIN
        while True:
            if self._signals.pending.is_late:
                await trio.sleep(1)
                continue
            done = await self._store.write(removal.clear, stone, place, BATCH)
            rows += done.rows
            held |= done.held
            if done.next is None:
                return rows, held
            place = done.next
            if done.rows:
                await trio.sleep(REST)
