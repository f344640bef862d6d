"""The ranking of topics: pages by name, or with those first that do most. What it reads is bounded by the page.

By rate or backlog, topics that do nothing come after those that do something, by name. What the groups have yet to
claim is added up for all topics at once, and remembered for a few seconds. A topic whose rank changes between two pages
may come twice, or be missed.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from typing import Literal

import trio
from attrs import frozen

from ....store import catalogue
from ....store.records import Topic, TopicState
from ....store.store import Store
from ..state.directory import Directory
from ..state.rates import Activity, Rates

_REMEMBERED = 5.0
"""Seconds for which backlogs are not added up again."""
_PAGE = 1000

Sort = Literal["name", "rate", "backlog"]


@frozen
class TopicPageStart:
    """The topic behind which a page begins: its name, and the value it was ranked by."""

    name: str = ""
    value: int = 1 << 62
    """Thousandths of a message a second, or messages; 0 when sorted by name."""


@frozen
class Ranked:
    """Some topics; `after` is where the next page begins, None after the last."""

    topics: tuple[tuple[Topic, TopicState, Activity], ...]
    after: TopicPageStart | None


class Ranking:
    """Ranks the topics of the store, by the names that the directory knows and the rates of this server."""

    def __init__(self, store: Store, directory: Directory, rates: Rates) -> None:
        self._store = store
        self._directory = directory
        self._rates = rates
        self._adding_up = trio.Lock()
        self._backlogs: Mapping[int, int] = {}
        self._backlogs_until = float("-inf")

    async def page(self, sort: Sort, place: TopicPageStart, limit: int) -> Ranked:
        values = await self._values(sort)
        topics = await self._busy(values, place, limit)
        after = place.name if place.value == 0 else ""
        through = False
        while len(topics) < limit and not through:
            page = await self._store.read(catalogue.topics_by_name, after, _PAGE if values else limit)
            idle = [topic for topic in page if not values.get(topic.id)]
            through = len(page) < (_PAGE if values else limit) and len(topics) + len(idle) <= limit
            topics += idle[: limit - len(topics)]
            after = page[-1].name if page else after
        described = await self._described(topics)
        last = None if through else TopicPageStart(topics[-1].name, values.get(topics[-1].id, 0))
        return Ranked(tuple(described), last)

    async def _busy(self, values: Mapping[int, int], place: TopicPageStart, limit: int) -> list[Topic]:
        """The topics that do something, from behind the place."""
        names = self._directory.name_of
        order = sorted((-value, names(topic_id)) for topic_id, value in values.items() if value and names(topic_id))
        begin = bisect_right(order, (-place.value, place.name))
        wanted = [name for _, name in order[begin : begin + limit]]
        found = {topic.name: topic for topic in await self._store.read(catalogue.find_topics, wanted)}
        return [found[name] for name in wanted if name in found]

    async def _values(self, sort: Sort) -> Mapping[int, int]:
        if sort == "rate":
            return {topic_id: round(1000 * rate.both) for topic_id, rate in self._rates.all().items()}
        if sort == "name":
            return {}
        async with self._adding_up:  # one for all who ask
            if trio.current_time() >= self._backlogs_until:
                self._backlogs = await self._store.read(catalogue.backlogs)
                self._backlogs_until = trio.current_time() + _REMEMBERED
        return self._backlogs

    async def _described(self, topics: list[Topic]) -> list[tuple[Topic, TopicState, Activity]]:
        states = await self._store.read(catalogue.topic_states, topics)
        groups = await self._store.groups(topics)
        lags = await self._store.read(catalogue.lags, [group.id for group in groups])
        backlogs: Counter[int] = Counter()
        for group in groups:
            backlogs[group.topic.id] += lags.get(group.id, (0, 0))[0]
        return [(one, states[one.id], Activity(self._rates.of(one.id), backlogs[one.id])) for one in topics]
