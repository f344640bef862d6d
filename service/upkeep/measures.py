"""The measures that need a look into the store, taken from counters every 20 seconds: what waits, and who lags."""

from collections import Counter

from ...store import catalogue
from ...store.records import Group, Topic
from ...store.store import Store
from ..metrics import MAX_NAMES, Metrics
from ..topics.directory import Directory


class Measures:
    """Reads counters, never the log. Where there are more topics or groups than have series, those have one that have
    most waiting: an alert has to see a backlog, whichever topic it is of."""

    def __init__(self, store: Store, directory: Directory, metrics: Metrics) -> None:
        self._store = store
        self._directory = directory
        self._metrics = metrics

    def forget(self) -> None:
        """Another node takes them."""
        self._metrics.forget_measures()

    async def take(self) -> None:
        """Sets the gauges."""
        groups, topics = await self._groups(), await self._topics()
        states = await self._store.read(catalogue.topic_states, topics)
        lags = await self._store.read(catalogue.lags, [group.id for group in groups])
        retrying: Counter[int] = Counter()
        self._metrics.forget_measures()  # who had most waiting may have nothing now
        for group in groups:
            if self._directory.group_by_id(group.id) is not None:  # not removed meanwhile
                lag, retries = lags.get(group.id, (0, 0))
                retrying[group.topic.id] += retries
                self._metrics.lag(group.topic.name, group.name, lag)
        for topic in topics:
            if self._directory.name_of(topic.id):
                self._metrics.pending(topic.name, states[topic.id].pending, retrying[topic.id])

    async def _topics(self) -> list[Topic]:
        ids = self._directory.topic_ids
        if len(ids) > MAX_NAMES:
            ids = await self._store.read(catalogue.most_pending, MAX_NAMES)
        return [topic for id_ in ids if (topic := self._directory.topic_by_id(id_)) is not None]

    async def _groups(self) -> list[Group]:
        if self._directory.count_of_groups <= MAX_NAMES:
            return [group for topic in self._directory.some(MAX_NAMES) for group in self._directory.groups_of(topic)]
        ids = await self._store.read(catalogue.most_lagging, MAX_NAMES)
        return [group for id_ in ids if (group := self._directory.group_by_id(id_)) is not None]
