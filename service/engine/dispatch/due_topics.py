"""The topics of messages that are due, or fall due in a given second, read from the store."""

from collections.abc import Mapping

from attrs import frozen

from ....store.ids import SHARDS
from ....store.store import Store
from ....store.timers import crowds
from ....wheel.columns import Columns
from ..state.directory import Directory

_OTHERS = 20_000
"""Messages in a crowded second that are not of the burst's topic, of which it is worth to know before it begins."""


@frozen(eq=False)
class DueTopics:
    """Over the store; a retry is of its group's topic."""

    _store: Store
    _directory: Directory

    async def topics_of(self, timers: Columns, burst: int) -> Mapping[int, int]:
        """By entry the topics of these, as far as they are there and not of topic `burst`. Raises `StoreError`."""
        topics, groups = await self._store.read(crowds.topics_of, list(timers), burst)
        for entry, group_id in groups.items():
            group = self._directory.group_by_id(group_id)
            topics[entry] = -group_id if group is None else group.topic.id
        return topics

    async def others_in(self, second: int) -> tuple[int, Mapping[int, int]] | None:
        """The topic of which nearly all are that fall due in a second, and the topics of the others by their entries.
        None where nearly all are of several topics, or the others too many. Raises `StoreError`."""
        if not (burst := await self._store.read(crowds.crowd_in, second)):
            return None
        others: dict[int, int] = {}
        for shard in range(SHARDS):  # each by itself: others read meanwhile
            others |= await self._store.read(crowds.strangers, second, shard, burst, _OTHERS)
            if len(others) >= _OTHERS:
                return None
        return burst, others
