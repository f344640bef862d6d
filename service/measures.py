"""The measures that need a look into the store, taken from counters every ten seconds: what waits, and who lags."""

from collections import Counter

from ..store.store import Store
from .directory import Directory
from .metrics import Metrics


class Measures:
    """Reads a few rows for each group, never the log."""

    def __init__(self, store: Store, directory: Directory, metrics: Metrics) -> None:
        self._store = store
        self._directory = directory
        self._metrics = metrics

    async def take(self) -> None:
        """Sets the gauges."""
        topics = self._directory.topics
        states = await self._store.topic_states(topics)
        lags = await self._store.lags()
        retrying: Counter[int] = Counter()
        for topic in topics:
            if not self._directory.name_of(topic.id):
                continue  # removed meanwhile
            for group in self._directory.groups_of(topic):
                lag, retries = lags.get(group.id, (0, 0))
                retrying[topic.id] += retries
                self._metrics.lag(topic.name, group.name, lag)
            self._metrics.pending(topic.name, states[topic.id].pending, retrying[topic.id])
