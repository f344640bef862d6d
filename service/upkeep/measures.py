"""Updates the metrics that are read from the store every 20 seconds: waiting messages, and the lag of groups."""

from ...store import catalogue
from ...store.records import Group, Topic
from ...store.store import Store
from ..engine.state.directory import Directory
from ..metrics import MAX_NAMES, Metrics


class Measures:
    """Reads counters, never the messages. If there are more topics or groups than may have series, those with most
    messages waiting have one, so that an alert sees a backlog of any topic."""

    def __init__(self, store: Store, directory: Directory, metrics: Metrics) -> None:
        self._store = store
        self._directory = directory
        self._metrics = metrics

    def forget(self) -> None:
        """Drops the gauges, because another node updates them now."""
        self._metrics.forget_measures()

    async def take(self) -> None:
        groups = await self._groups()
        topics = await self._topics(groups)
        states = await self._store.read(catalogue.topic_states, topics)
        lags = await self._store.read(catalogue.lags, [group.id for group in groups])
        retrying = {topic.id: 0 for topic in topics}
        for group in groups:
            if group.topic.id in retrying:
                retrying[group.topic.id] += lags.get(group.id, (0, 0))[1]
        # Leave out topics and groups that were removed meanwhile.
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

    async def _groups(self) -> list[Group]:
        most: list[int] = []
        if self._directory.count_of_groups > MAX_NAMES:
            most = await self._store.read(catalogue.most_lagging, MAX_NAMES)
        found = {id_: group for id_ in most if (group := self._directory.group_by_id(id_)) is not None}
        found |= {group.id: group for group in self._directory.some_groups(MAX_NAMES) if group.id not in found}
        return list(found.values())[:MAX_NAMES]

    async def _topics(self, groups: list[Group]) -> list[Topic]:
        """The topics that have series, including those with nothing but retries."""
        most: list[int] = []
        if len(self._directory.topic_ids) > MAX_NAMES:
            most = await self._store.read(catalogue.most_pending, MAX_NAMES)
            most += [group.topic.id for group in groups]
        found = {id_: topic for id_ in most if (topic := self._directory.topic_by_id(id_)) is not None}
        found = {topic.id: topic for topic in (*found.values(), *self._directory.some(MAX_NAMES))}
        return list(found.values())[:MAX_NAMES]
