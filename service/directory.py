"""The directory: topics, groups and queues by name and id, kept in memory and read again from time to time."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from ..store.catalogue import TopicDraft
from ..store.records import Group, Topic
from ..store.store import Store
from ..wheel.ladder import Ladder
from .clock import Clock
from .errors import UnknownGroup, UnknownTopic

Named = TypeVar("Named", Topic, Group)


def _missing(known: Sequence[Named], present: Sequence[Named]) -> list[Named]:
    """Those known that are not present any more."""
    ids = {one.id for one in present}
    return [one for one in known if one.id not in ids]


class Directory:
    """What exists; `refresh` takes note of what other nodes have made."""

    def __init__(self, store: Store, clock: Clock, *, auto_create: bool) -> None:
        self._store = store
        self._clock = clock
        self._auto_create = auto_create
        self._topics: dict[str, Topic] = {}
        self._names: dict[int, str] = {}
        self._groups: dict[tuple[int, str], Group] = {}
        self._by_id: dict[int, Group] = {}
        self._topic_of_queue: dict[int, Topic] = {}
        self._group_of_queue: dict[int, Group] = {}
        self._making = trio.Lock()
        self._removed_topics: set[int] = set()
        self._removed_groups: set[int] = set()
        self.topic_gone: Callable[[Topic], None] = lambda _: None
        self.group_gone: Callable[[Group], None] = lambda _: None
        """Called when one is forgotten, removed here or elsewhere."""

    async def refresh(self) -> None:
        """Reads everything anew; what is not there any more is forgotten."""
        known_topics, known_groups = list(self._topics.values()), list(self._by_id.values())
        topics = await self._store.topics()
        groups = await self._store.groups(topics)
        # Only what was known before the reading: somebody may have made more meanwhile.
        for group in _missing(known_groups, groups):
            self.forget_group(group)
        for topic in _missing(known_topics, topics):
            self.forget_topic(topic)
        for topic in topics:
            self._note_topic(topic)
        for group in groups:
            self._note_group(group)

    @property
    def topics(self) -> list[Topic]:
        """All topics, by name."""
        return [self._topics[name] for name in sorted(self._topics)]

    def name_of(self, topic_id: int) -> str:
        """The name of a topic; empty for one that is not known here yet."""
        return self._names.get(topic_id, "")

    def groups_of(self, topic: Topic) -> list[Group]:
        """The groups of a topic, by name."""
        return sorted((g for g in self._by_id.values() if g.topic.id == topic.id), key=lambda g: g.name)

    def group_by_id(self, id_: int) -> Group | None:
        """The group of this id."""
        return self._by_id.get(id_)

    def topic_of_queue(self, queue_id: int) -> Topic | None:
        """The topic whose own queue this is."""
        return self._topic_of_queue.get(queue_id)

    def group_of_queue(self, queue_id: int) -> Group | None:
        """The group whose retry queue this is."""
        return self._group_of_queue.get(queue_id)

    async def topic(self, name: str, *, create: bool) -> Topic:
        """The topic of this name, made when it is missing and may be made."""
        if (topic := self._topics.get(name)) is not None:
            return topic
        async with self._making:
            if (topic := self._topics.get(name)) is not None:
                return topic
            found = await self._store.topics([name])
            if found:
                self._note_topic(found[0])
                for group in await self._store.groups(found):
                    self._note_group(group)
                return found[0]
            if not (create and self._auto_create):
                raise UnknownTopic(f"there is no topic {name!r}: make it with PUT /v1/topics/{name}")
            return await self.make_topic(TopicDraft(name))

    async def make_topic(self, draft: TopicDraft) -> Topic:
        """Makes a topic, or gives one that exists the queues it lacks."""
        topic = await self._store.add_topic(draft, self._clock.now())
        self._note_topic(topic)
        for group in await self._store.groups([topic]):
            self._note_group(group)
        return topic

    async def change_topic(self, topic: Topic, draft: TopicDraft) -> Topic:
        """Sets what may be changed of a topic."""
        await self._store.change_topic(topic, draft, self._clock.now())
        found = await self._store.topics([topic.name])
        if not found:
            raise UnknownTopic(f"topic {topic.name!r} has been removed meanwhile")
        (topic,) = found
        self._note_topic(topic)
        for group in await self._store.groups([topic]):
            self._note_group(group)
        return topic

    async def group(
        self,
        topic: Topic,
        name: str,
        *,
        create: bool,
        asked_for: bool = False,
        latest: bool = False,
        since: int | None = None,
        ladder: Ladder | None = None,
    ) -> Group:
        """The group of this name, made when it is missing and may be made, or is `asked_for` by name."""
        if (group := self._groups.get((topic.id, name))) is not None:
            return group
        async with self._making:
            if (group := self._groups.get((topic.id, name))) is not None:
                return group
            for group in await self._store.groups([topic]):
                self._note_group(group)
            if (group := self._groups.get((topic.id, name))) is not None:
                return group
            if not (asked_for or (create and self._auto_create)):
                raise UnknownGroup(f"topic {topic.name!r} has no group {name!r}")
            group = await self._store.add_group(
                topic, name, self._clock.now(), ladder=ladder, latest=latest, since=since
            )
            return self._note_group(group)

    async def change_group(self, group: Group, ladder: Ladder | None, *, block: bool = False) -> Group:
        """Sets a group's own ladder, and whether an exhausted message blocks its key."""
        await self._store.change_group(group, ladder, block=block)
        for changed in await self._store.groups([group.topic]):
            self._note_group(changed)
        return self._present(group)

    async def limit_group(self, group: Group, concurrency: int | None) -> Group:
        """Sets how many messages a group's clients may have in hand at once."""
        await self._store.limit_group(group, concurrency)
        for changed in await self._store.groups([group.topic]):
            self._note_group(changed)
        return self._present(group)

    def _present(self, group: Group) -> Group:
        if group.id not in self._by_id:
            raise UnknownGroup(f"group {group.name!r} of topic {group.topic.name!r} has been removed meanwhile")
        return self._by_id[group.id]

    def forget_topic(self, topic: Topic) -> None:
        """The topic is removed, and its groups with it."""
        if topic.id in self._removed_topics:
            return
        self._removed_topics.add(topic.id)
        for group in self.groups_of(topic):
            self.forget_group(group)
        present = self._topics.get(topic.name)
        if present is not None and present.id == topic.id:
            del self._topics[topic.name]
        self._names.pop(topic.id, None)
        queues = [queue_id for queue_id, one in self._topic_of_queue.items() if one.id == topic.id]
        for queue_id in queues:
            del self._topic_of_queue[queue_id]
        self._store.backend.sequence(queues, by_redis=False)
        self.topic_gone(topic)

    def forget_group(self, group: Group) -> None:
        """The group is removed."""
        if group.id in self._removed_groups:
            return
        self._removed_groups.add(group.id)
        self._groups = {place: one for place, one in self._groups.items() if one.id != group.id}
        self._by_id.pop(group.id, None)
        for queue_id in [queue_id for queue_id, one in self._group_of_queue.items() if one.id == group.id]:
            del self._group_of_queue[queue_id]
        self.group_gone(group)

    def _note_topic(self, topic: Topic) -> None:
        if topic.id in self._removed_topics:
            return  # read just before it was removed
        self._topics[topic.name] = topic
        self._names[topic.id] = topic.name
        for queue in topic.queues:
            self._topic_of_queue[queue.id] = topic
        self._store.backend.sequence([queue.id for queue in topic.queues], by_redis=topic.sequencer == "redis")

    def _note_group(self, group: Group) -> Group:
        if group.id in self._removed_groups or group.topic.id in self._removed_topics:
            return group  # read just before it was removed
        self._groups[group.topic.id, group.name] = group
        self._by_id[group.id] = group
        for queue in group.retry_queues.values():
            self._group_of_queue[queue.id] = group
        return group
