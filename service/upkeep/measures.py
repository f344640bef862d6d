"""The measures that need a look into the store, taken from counters every 20 seconds: what waits, and who lags."""

from collections import Counter

from ...store import catalogue
from ...store.store import Store
from ..metrics import MAX_NAMES, Metrics
from ..topics.directory import Directory


class Measures:
    """Reads a few rows for each group, never the log, and of a bounded number of them."""

    def __init__(self, store: Store, directory: Directory, metrics: Metrics) -> None:
        self._store = store
        self._directory = directory
        self._metrics = metrics

    def forget(self) -> None:
        """Another node takes them."""
        self._metrics.forget_measures()

    async def take(self) -> None:
        """Sets the gauges of the topics that have series of their own: of very many topics a part."""
        topics = [topic for topic in self._directory.some(MAX_NAMES) if self._directory.name_of(topic.id)]
        groups = [group for topic in topics for group in self._directory.groups_of(topic)][:MAX_NAMES]
        states = await self._store.read(catalogue.topic_states, topics)
        lags = await self._store.read(catalogue.lags, [group.id for group in groups])
        retrying: Counter[int] = Counter()
        for group in groups:
            if self._directory.group_by_id(group.id) is not None:  # not removed meanwhile
                lag, retries = lags.get(group.id, (0, 0))
                retrying[group.topic.id] += retries
                self._metrics.lag(group.topic.name, group.name, lag)
        for topic in topics:
            if self._directory.name_of(topic.id):
                self._metrics.pending(topic.name, states[topic.id].pending, retrying[topic.id])
