"""The directory: topics, groups and queues by name and id, kept in memory and read again from time to time.

Of very many topics a refresh reads some, a page at a time: new ones, removed ones, and a bounded number of others in
turn.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterator, Set
from contextlib import contextmanager
from itertools import islice
from weakref import WeakValueDictionary

import trio
from attrs import define, field

from ....store import catalogue
from ....store.catalogue import TopicDraft
from ....store.cleaning import removal
from ....store.cleaning.removal import Tombstone
from ....store.records import Group, Topic
from ....store.store import Store
from ....wheel.ladder import Ladder
from ...clock import Clock
from ...errors import UnknownGroup, UnknownTopic
from .forgetting import Forgetting

_PAGE = 500
"""Topics that are read together."""
_FIRST_PAGE = 5000
"""The same at the start, when nobody waits yet: fewer reads take half the time."""
_ROUND = 2000
"""Topics that are read anew in one refresh: all of them, if there are no more."""
_EVERY = 10.0
"""Seconds between two refreshes, when no other node tells of a change."""
_LAST = 1 << 62
_REMEMBERED = 10_000
"""Removed topics, and as many groups, that are remembered: a read from just before the removal may bring them again."""
_LINES = 4
"""Topics and groups made at their first use at a time: thousands wait for each other, other requests do not."""


@define(eq=False)
class _Look:
    """A read of the store that is under way, and what reads that began later have noted meanwhile: the ids of topics,
    and the ids of topics whose groups were read, or (topic id, name) for a single group. What those saw is newer,
    whichever answer comes first."""

    topics: set[int] = field(factory=set[int], init=False)
    groups: set[int | tuple[int, str]] = field(factory=set[int | tuple[int, str]], init=False)


class Directory:
    """What exists; `refresh` takes note of what other nodes have made."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        auto_create: bool,
        forgetting: Forgetting | None = None,
        release_rates: dict[int, int] | None = None,
    ) -> None:
        """`forgetting` hears of topics and groups that were removed, here or elsewhere; the rates of topics are kept in
        `release_rates`."""
        self._store = store
        self._clock = clock
        self._auto_create = auto_create
        self._topics: dict[str, Topic] = {}
        self._names: dict[int, str] = {}
        self._ids: list[int] = []  # of the topics, ascending
        self._at = 0  # the topic behind which the next refresh reads
        self._groups: dict[tuple[int, str], Group] = {}
        self._of_topic: dict[int, dict[int, Group]] = defaultdict(dict)
        self._by_id: dict[int, Group] = {}
        self.paused: set[int] = set()
        """The ids of the groups that are known here to be paused."""
        self.release_rates = {} if release_rates is None else release_rates
        """By topic id the release rate of each topic that has one."""
        self._topic_of_queue: dict[int, Topic] = {}
        self._group_of_queue: dict[int, Group] = {}
        self._making: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()
        """By topic name: a topic that is being made keeps no other waiting."""
        self._line = trio.CapacityLimiter(_LINES)
        self._removed_topics: dict[int, None] = {}
        self._removed_groups: dict[int, None] = {}
        self._looks: list[_Look] = []  # that are under way, in the order in which they began
        self._changed = trio.Event()
        self._read_anew = False
        """Another server has had the database since the start: a topic may have been looked up before that."""
        self._forgetting = forgetting

    async def refresh(self) -> None:
        """Reads topics anew, and forgets those that are gone. The first refresh reads everything."""
        for stone in await self._store.read(removal.tombstones):
            self._forget_stone(stone)
        last = self._ids[-1] if self._ids else 0
        read = 0
        limit = _PAGE if last else _FIRST_PAGE
        while read < _ROUND or not last:
            seen, through = await self._read(self._at, limit)
            read += seen
            if through:
                self._at = 0
                return
        while not (await self._read(self._ids[-1] if self._ids else 0, _PAGE, keep=True))[1]:
            pass  # what is new, too

    async def read_anew(self) -> None:
        """Another server has the database: reads everything, and forgets what is not there; that may come again."""
        self._at, self._read_anew = 0, True
        while True:
            await self.refresh()
            if not self._at:
                break
        self._removed_topics.clear()
        self._removed_groups.clear()

    def is_lost(self, topic: Topic) -> bool:
        """Whether a topic that was looked up earlier was lost with the server that had the database then: its ids may
        be another topic's now. A topic that was removed since is lost, too."""
        present = self._topics.get(topic.name)
        if not self._read_anew or present is topic:
            return False
        return present is None or not {queue.id for queue in topic.queues} <= {queue.id for queue in present.queues}

    def note_change(self, _: int) -> None:
        """Has a refresh made soon, since another node has changed or removed something."""
        self._changed.set()

    async def refresh_in_time(self) -> None:
        """Refreshes ten seconds from now, or when another node tells of a change."""
        with trio.move_on_after(_EVERY):
            await self._changed.wait()
        self._changed = trio.Event()
        await self.refresh()

    async def _read(self, after: int, limit: int, *, keep: bool = False) -> tuple[int, bool]:
        """Reads a page of topics behind an id; returns how many there are, and whether these were the last."""
        # Only what was known before the read is compared: more may be made meanwhile.
        known = self._ids[bisect_right(self._ids, after) :]
        known_groups = [group for id_ in known[:limit] for group in self._of_topic.get(id_, {}).values()]
        with self._look() as look:
            topics, groups = await self._store.read(catalogue.topic_page, after, limit, self._store.ladder)
            through = len(topics) < limit
            upto = _LAST if through else topics[-1].id
            there = {topic.id for topic in topics}
            present = {group.id for group in groups}
            for group in known_groups:
                if group.topic.id in there and group.id not in present:
                    self.forget_group(group)
            for id_ in known:
                if id_ <= upto and id_ not in there and (topic := self.topic_by_id(id_)) is not None:
                    self.forget_topic(topic)
            self._note_topics(look, topics)
            self._note_groups(look, groups, there)
        if not keep:
            self._at = upto
        return len(topics), through

    def _forget_stone(self, stone: Tombstone) -> None:
        if stone.group_id and (group := self._by_id.get(stone.group_id)) is not None:
            self.forget_group(group)
        if (group := self._group_of_queue.get(stone.queue_id)) is not None:
            self.forget_group(group)
        topic = self.topic_by_id(stone.topic_id)
        if topic is not None and not stone.group_id and not stone.queue_id:
            self.forget_topic(topic)

    @contextmanager
    def _look(self) -> Generator[_Look]:
        """A look at the store, from before its first statement until all of it is noted."""
        look = _Look()
        self._looks.append(look)
        try:
            yield look
        finally:
            self._looks.remove(look)

    async def look_up_group(self, id_: int, queue_ids: Collection[int] = ()) -> Group | None:
        """The group of this id. The store is asked if the group is not known here, or not with all of these queues: its
        topic may have gained some at another server."""
        if (group := self._by_id.get(id_)) is None or not set(queue_ids).issubset(group.queue_ids):
            for name in await self._store.read(catalogue.topics_of_groups, [id_]):
                await self.read_topic(name)
            group = self._by_id.get(id_)
        return group

    async def read_topic(self, name: str) -> Topic | None:
        """A topic and its groups, as they are in the store now."""
        with self._look() as look:
            found = await self._store.read(catalogue.find_topics, [name])
            self._note_topics(look, found)
        for topic in found:
            await self._read_groups(topic)
        return found[0] if found else None

    async def _read_groups(self, topic: Topic) -> None:
        """Notes the groups of the topic as it is known by now: the caller may have it from before it gained queues."""
        now_known = self.topic_by_id(topic.id) or topic
        with self._look() as look:
            self._note_groups(look, await self._store.groups([now_known]), [now_known.id])

    async def _read_group(self, topic: Topic, name: str) -> None:
        """The same for one group, which may not exist: a request for any name must not have all the others read."""
        now_known = self.topic_by_id(topic.id) or topic
        with self._look() as look:
            found = await self._store.read(catalogue.find_group, now_known, name, self._store.ladder)
            self._note_groups(look, [found] if found else [], [(now_known.id, name)])

    def some(self, limit: int) -> list[Topic]:
        """The topics that were made first."""
        return [self._topics[self._names[id_]] for id_ in self._ids[:limit]]

    @property
    def count_of_groups(self) -> int:
        return len(self._groups)

    def some_groups(self, limit: int) -> list[Group]:
        """The groups that were met first, of any topic."""
        return list(islice(self._groups.values(), limit))

    @property
    def topic_ids(self) -> list[int]:
        """The ids of all topics, ascending."""
        return list(self._ids)

    def topic_by_id(self, id_: int) -> Topic | None:
        topic = self._topics.get(self._names.get(id_, ""))
        return topic if topic is not None and topic.id == id_ else None

    def name_of(self, topic_id: int) -> str:
        """The name of a topic; empty for one that is not known here yet."""
        return self._names.get(topic_id, "")

    def topics_from(self, name: str) -> Iterator[Topic]:
        """Topics by name, from this one on."""
        for one in sorted(known for known in self._topics if known >= name):
            yield self._topics[one]

    def groups_of(self, topic: Topic) -> list[Group]:
        """The groups of a topic, by name."""
        return sorted(self._of_topic.get(topic.id, {}).values(), key=lambda group: group.name)

    def group_by_id(self, id_: int) -> Group | None:
        return self._by_id.get(id_)

    def topic_of_queue(self, queue_id: int) -> Topic | None:
        """The topic whose own queue this is."""
        return self._topic_of_queue.get(queue_id)

    def group_of_queue(self, queue_id: int) -> Group | None:
        """The group whose retry queue this is."""
        return self._group_of_queue.get(queue_id)

    async def topic(self, name: str, *, create: bool = True) -> Topic:
        """The topic of this name, made when it is missing and may be made."""
        if (topic := self._topics.get(name)) is not None:
            return topic
        async with self._making.setdefault(name, trio.Lock()):
            if (topic := self._topics.get(name)) is not None:
                return topic
            if (found := await self.read_topic(name)) is not None:
                return found
            if not (create and self._auto_create):
                raise UnknownTopic(f"there is no topic {name!r}: make it with PUT /v1/topics/{name}")
            async with self._line:
                return await self.make_topic(TopicDraft(name))

    async def make_topic(self, draft: TopicDraft) -> Topic:
        """Makes a topic, or gives one that exists the queues it lacks."""
        topic = await self._store.write(catalogue.add_topic, draft, self._clock.now())
        # Read once more: a look that began before that commit may be under way.
        return await self.read_topic(topic.name) or topic

    async def put_topic(
        self, draft: TopicDraft, named: Set[str], check: Callable[[Topic, TopicDraft], None]
    ) -> tuple[Topic, bool]:
        """Makes the topic, or changes its `named` fields if `check` allows it; also returns whether it was made."""
        topic, made = await self._store.put_topic(draft, named, check, self._clock.now())
        # Read once more: a look that began before that commit may be under way.
        return await self.read_topic(topic.name) or topic, made

    async def group(
        self,
        topic: Topic,
        name: str,
        *,
        create: bool = True,
        asked_for: bool = False,
        latest: bool = False,
        since: int | None = None,
        ladder: Ladder | None = None,
    ) -> Group:
        """The group of this name, made when it is missing and may be made, or is `asked_for` by name."""
        if (group := self._groups.get((topic.id, name))) is not None:
            return group
        async with self._making.setdefault(topic.name, trio.Lock()):
            if (group := self._groups.get((topic.id, name))) is not None:
                return group
            await self._read_group(topic, name)
            if (group := self._groups.get((topic.id, name))) is not None:
                return group
            if not (asked_for or (create and self._auto_create)):
                raise UnknownGroup(f"topic {topic.name!r} has no group {name!r}")
            async with self._line:
                group = await self._store.add_group(
                    topic, name, self._clock.now(), ladder=ladder, latest=latest, since=since
                )
            return self._note_group(group)

    async def read_group(self, group: Group) -> Group:
        """The group as it is in the store now. Raises `UnknownGroup` when it is gone."""
        await self._read_group(group.topic, group.name)
        if group.id not in self._by_id:
            raise UnknownGroup(f"group {group.name!r} of topic {group.topic.name!r} has been removed meanwhile")
        return self._by_id[group.id]

    def forget_topic(self, topic: Topic) -> None:
        """Forgets a topic that is removed, and its groups."""
        if not _remember(self._removed_topics, topic.id):
            return
        for group in self.groups_of(topic):
            self.forget_group(group)
        present = self._topics.get(topic.name)
        if present is not None and present.id == topic.id:
            del self._topics[topic.name]
        if self._names.pop(topic.id, None) is not None:
            del self._ids[bisect_left(self._ids, topic.id)]
        self._of_topic.pop(topic.id, None)
        self.release_rates.pop(topic.id, None)
        queues = [queue.id for one in (topic, present) if one and one.id == topic.id for queue in one.queues]
        for queue_id in queues:
            self._topic_of_queue.pop(queue_id, None)
        self._store.backend.sequence(queues, by_redis=False)
        if self._forgetting is not None:
            self._forgetting.topic_gone(topic)

    def forget_group(self, group: Group) -> None:
        if not _remember(self._removed_groups, group.id):
            return
        self._drop_group(group)

    def _drop_group(self, group: Group) -> None:
        place, present = (group.topic.id, group.name), self._by_id.pop(group.id, None)
        self.paused.discard(group.id)
        if place in self._groups and self._groups[place].id == group.id:
            del self._groups[place]
        if place[0] in self._of_topic:
            self._of_topic[place[0]].pop(group.id, None)
        for one in (group, present):
            for queue in one.retry_queues if one is not None else ():
                if (whose := self._group_of_queue.get(queue.id)) is not None and whose.id == group.id:
                    del self._group_of_queue[queue.id]
        if self._forgetting is not None:
            self._forgetting.group_gone(group)

    def _note_topics(self, look: _Look, topics: Collection[Topic]) -> None:
        """Notes the topics that a look has seen, except those that a later look has noted already."""
        for topic in topics:
            if topic.id not in look.topics:
                self._note_topic(topic)
        for earlier in self._looks[: self._looks.index(look)]:
            earlier.topics.update(topic.id for topic in topics)

    def _note_groups(self, look: _Look, groups: Collection[Group], of: Collection[int | tuple[int, str]]) -> None:
        """The same for all groups of these topics. A later look may not know yet of queues that a topic has gained."""
        for group in groups:
            known = self._by_id.get(group.id)
            told = not look.groups.isdisjoint((group.topic.id, (group.topic.id, group.name)))
            if not told or (known and len(known.topic.queues) < len(group.topic.queues)):
                self._note_group(group)
        for earlier in self._looks[: self._looks.index(look)]:
            earlier.groups.update(of)

    def _note_topic(self, topic: Topic) -> None:
        if topic.id in self._removed_topics or not topic.queues:
            return  # read just before it was removed, or half before and half after
        known = self._topics.get(topic.name)
        if known == topic:
            return
        if known is not None and known.id > topic.id:
            return  # read before it was removed, and made again
        if known is not None and known.id < topic.id:
            self.forget_topic(known)
        before = self.topic_by_id(topic.id)
        if before is not None and before.name != topic.name:
            # It was lost with the server that had the database, and its id was given to another topic.
            del self._topics[before.name]
            for queue in before.queues:
                if self._topic_of_queue.get(queue.id) is before:
                    del self._topic_of_queue[queue.id]
        self._topics[topic.name] = topic
        if topic.release_rate is None:
            self.release_rates.pop(topic.id, None)
        else:
            self.release_rates[topic.id] = topic.release_rate
        if topic.id not in self._names:
            insort(self._ids, topic.id)
        self._names[topic.id] = topic.name
        for queue in topic.queues:
            self._topic_of_queue[queue.id] = topic
        self._store.backend.sequence([queue.id for queue in topic.queues], by_redis=topic.sequencer == "redis")

    def _note_group(self, group: Group) -> Group:
        if group.id in self._removed_groups or group.topic.id in self._removed_topics:
            return group  # read just before it was removed
        before = self._by_id.get(group.id)
        if before is not None and _whole_name(before) != _whole_name(group):
            self._drop_group(before)  # lost with the server that had the database; its id is another group's
        self._groups[group.topic.id, group.name] = group
        self._by_id[group.id] = group
        self._of_topic[group.topic.id][group.id] = group
        (self.paused.add if group.paused else self.paused.discard)(group.id)
        for queue in group.retry_queues:
            self._group_of_queue[queue.id] = group
        return group


def _whole_name(group: Group) -> tuple[int, str, str]:
    return group.topic.id, group.topic.name, group.name


def _remember(removed: dict[int, None], id_: int) -> bool:
    """Remembers a removal; False when it was remembered already. The oldest are dropped."""
    if id_ in removed:
        return False
    removed[id_] = None
    if len(removed) > _REMEMBERED:
        del removed[next(iter(removed))]
    return True
