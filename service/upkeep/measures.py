"""The measures that need a look into the store, taken from counters every 20 seconds: what waits, and who lags.

Of very many topics and groups those have series that have something waiting, the most first: an alert that looks at
them must not miss a topic because it is young. Who these are is found out once a minute, in a look at all.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import trio

from ...store import catalogue
from ...store.records import Group, Topic, TopicState
from ...store.store import Store
from ..metrics import MAX_NAMES, Metrics
from ..topics.directory import Directory

_CHOSEN = 60.0
"""Seconds for which those that have series are not chosen anew."""
_AT_ONCE = 1000
"""Rows of counters that are asked for together."""

T = TypeVar("T")
Lags = Mapping[int, tuple[int, int]]
"""By id of a group: messages yet to be claimed, and retries."""


class Measures:
    """Reads a few rows for each group, never the log, and of a bounded number of them but for once a minute."""

    def __init__(self, store: Store, directory: Directory, metrics: Metrics) -> None:
        self._store = store
        self._directory = directory
        self._metrics = metrics
        self._topics: frozenset[int] = frozenset()
        self._groups: frozenset[int] = frozenset()
        self._until = float("-inf")
        """Those that are chosen, by id, and until when, by the loop's time."""

    def forget(self) -> None:
        """Another node takes them."""
        self._metrics.forget_measures()

    async def take(self) -> None:
        """Sets the gauges of the topics and groups that have series of their own."""
        topics = self._directory.some(len(self._directory.topic_ids))
        groups = [group for topic in topics for group in self._directory.groups_of(topic)]
        many = len(topics) > MAX_NAMES or len(groups) > MAX_NAMES
        if many and trio.current_time() < self._until:
            topics = [topic for topic in topics if topic.id in self._topics]
            groups = [group for group in groups if group.id in self._groups]
        states = await self._states(topics)
        lags = await self._lags(groups)
        retrying: Counter[int] = Counter()
        for group in groups:
            retrying[group.topic.id] += lags.get(group.id, (0, 0))[1]
        if many and trio.current_time() >= self._until:
            topics = _most(topics, lambda topic: states[topic.id].pending + retrying[topic.id])
            groups = _most(groups, lambda group: sum(lags.get(group.id, (0, 0))))
            self._topics, self._groups = frozenset(one.id for one in topics), frozenset(one.id for one in groups)
            self._until = trio.current_time() + _CHOSEN
        # Not those that were removed meanwhile.
        self._metrics.waiting(
            {
                topic.name: (states[topic.id].pending, retrying[topic.id])
                for topic in topics
                if self._directory.name_of(topic.id)
            },
            {
                (group.topic.name, group.name): lags.get(group.id, (0, 0))[0]
                for group in groups
                if self._directory.group_by_id(group.id) is not None
            },
        )

    async def _states(self, topics: Sequence[Topic]) -> Mapping[int, TopicState]:
        states: dict[int, TopicState] = {}
        for some in _pieces(topics):
            states |= await self._store.read(catalogue.topic_states, some)
        return states

    async def _lags(self, groups: Sequence[Group]) -> Lags:
        lags: dict[int, tuple[int, int]] = {}
        for some in _pieces(groups):
            lags |= await self._store.read(catalogue.lags, [group.id for group in some])
        return lags


def _pieces(things: Sequence[T]) -> Iterator[Sequence[T]]:
    return (things[start : start + _AT_ONCE] for start in range(0, len(things), _AT_ONCE))


def _most(things: Iterable[T], waiting: Callable[[T], int]) -> list[T]:
    """Those that have most waiting; of those that have nothing the oldest."""
    return sorted(things, key=waiting, reverse=True)[:MAX_NAMES]
