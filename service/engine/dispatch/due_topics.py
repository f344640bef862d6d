"""The topics of messages that are due, or fall due in a given second, read from the store."""

from collections.abc import Mapping

from attrs import frozen

from ....store.ids import SHARDS
from ....store.store import Store
from ....store.timers import bursts
from ....wheel.columns import Columns
from ..state.directory import Directory

_OTHERS = 20_000
"""Messages of other topics in a crowded second that it is worth knowing before the second begins, at most."""


@frozen(eq=False)
class DueTopics:
    """Reads topics from the store; a retry has the topic of its group."""

    _store: Store
    _directory: Directory

    async def topics_of(self, timers: Columns, burst: int) -> Mapping[int, int]:
        """The topics of these, by entry; those that are gone or of topic `burst` are left out. Raises `StoreError`."""
        topics, groups = await self._store.read(bursts.topics_of, list(timers), burst)
        for entry, group_id in groups.items():
            group = self._directory.group_by_id(group_id)
            topics[entry] = -group_id if group is None else group.topic.id
        return topics

    async def others_in(self, second: int) -> tuple[int, Mapping[int, int]] | None:
        """The topic that nearly all messages of a second are of, and the topics of the others by their entries. None
        where no topic has nearly all, or where the others are too many. Raises `StoreError`."""
        if not (burst := await self._store.read(bursts.topic_of_burst, second)):
            return None
        others: dict[int, int] = {}
        for shard in range(SHARDS):  # a shard at a time: others read in between
            others |= await self._store.read(bursts.others, second, shard, burst, _OTHERS)
            if len(others) >= _OTHERS:
                return None
        return burst, others
