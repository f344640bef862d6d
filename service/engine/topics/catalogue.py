"""The catalogue: makes and changes topics and groups, and refuses changes of what is fixed when they are made."""

from collections.abc import Set

from attrs import fields, frozen

from ....store import catalogue
from ....store.catalogue import TopicDraft
from ....store.errors import Refused
from ....store.records import Group, Topic
from ....store.store import Store
from ....wheel.ladder import Ladder
from ...errors import TopicConflict
from ..signals import Signals
from ..state.directory import Directory

ALL = frozenset({"jitter", *(field.name for field in fields(TopicDraft))} - {"name"})
"""The fields of a topic."""


@frozen(eq=False)
class Catalogue:
    _store: Store
    _directory: Directory
    _signals: Signals

    async def put_topic(self, draft: TopicDraft, named: Set[str] = ALL) -> tuple[Topic, bool]:
        """Makes a topic, or changes the `named` fields of one that exists; True when it was made.

        Raises `TopicConflict`.
        """
        if draft.sequencer == "redis":
            try:
                self._store.backend.sequence([], by_redis=True)  # before anything is done
            except Refused as error:
                raise TopicConflict(str(error), "sequencer") from error
        topic, made = await self._directory.put_topic(draft, named, _unless_it_stays)
        if not made:
            self._signals.catalogue_changed(topic.id)
        return topic, made

    async def put_group(
        self,
        topic: Topic,
        name: str,
        ladder: Ladder | None,
        *,
        block: bool = False,
        latest: bool = False,
        since: int | None = None,
    ) -> tuple[Group, bool]:
        """Makes a group, or changes its ladder and what happens when that is exhausted; True when it was made.

        Where it begins counts only when it is made: at the earliest message, or behind the `latest`, or at the first of
        the time `since`, Unix milliseconds.
        """
        known = name in {group.name for group in self._directory.groups_of(topic)}
        group = await self._directory.group(
            topic, name, create=True, asked_for=True, ladder=ladder, latest=latest, since=since
        )
        # The group may be there already, made elsewhere with other settings.
        if known or (group.own_ladder, group.block) != (ladder, block):
            await self._store.write(catalogue.change_group, group, ladder, block=block)
            group = await self._directory.read_group(group)
            self._signals.catalogue_changed(topic.id)
        return group, not known

    async def limit_group(self, group: Group, concurrency: int | None) -> Group:
        """Sets how many messages the group's clients may have in hand at once; None is no limit."""
        await self._store.write(catalogue.limit_group, group, concurrency)
        return await self._changed(group)

    async def pause_group(self, group: Group, *, paused: bool) -> Group:
        """Gives its clients nothing from now on, or something again; other servers hear of it within a second.

        Raises `TopicConflict` for a broadcast topic.
        """
        if group.topic.kind == "broadcast":
            raise TopicConflict(
                f"topic {group.topic.name!r} is a broadcast topic: its clients read by offsets of their own,"
                " and no group of it can be paused"
            )
        await self._store.write(catalogue.pause_group, group, paused=paused)
        return await self._changed(group)

    async def _changed(self, group: Group) -> Group:
        """The group as it is now. Its clients look again."""
        group = await self._directory.read_group(group)
        self._signals.group_freed(group.id)
        self._signals.catalogue_changed(group.topic.id)
        return group


def _unless_it_stays(known: Topic, draft: TopicDraft) -> None:
    """Raises `TopicConflict` if the draft changes what was fixed when the topic was made."""
    name, queues = draft.name, len(known.queues)
    if draft.kind != known.kind:
        raise TopicConflict(f"topic {name!r} is of kind {known.kind!r}, and the kind of a topic stays", "kind")
    if draft.ordered != known.ordered:
        raise TopicConflict(f"topic {name!r} is {'' if known.ordered else 'not '}ordered, and stays so", "ordered")
    if known.ordered and draft.queues != queues:
        because = "with another number its ordering keys would be of other queues, and out of order"
        raise TopicConflict(f"topic {name!r} is ordered and has {_queues(queues)} for good: {because}", "queues")
    if draft.queues < queues:
        because = "queues are never taken away: messages are in them"
        raise TopicConflict(f"topic {name!r} has {_queues(queues)}, and {because}", "queues")


def _queues(count: int) -> str:
    return "1 queue" if count == 1 else f"{count} queues"
