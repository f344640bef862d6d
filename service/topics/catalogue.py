"""The catalogue: what somebody sets of a topic or a group, and what of it stays as it was made."""

from collections.abc import Callable

from attrs import frozen

from ...store import catalogue
from ...store.catalogue import TopicDraft
from ...store.errors import Refused
from ...store.records import Group, Topic
from ...store.store import Store
from ...wheel.ladder import Ladder
from ..errors import TopicConflict, UnknownTopic
from ..notices import Tell
from .directory import Directory


@frozen(eq=False)
class Catalogue:
    """Makes and changes topics and groups by name. `_freed` hears of a group, by its id, that may have more in hand;
    `_tell` tells other nodes of a change."""

    _store: Store
    _directory: Directory
    _freed: Callable[[int], None]
    _tell: Tell

    async def put_topic(self, draft: TopicDraft) -> tuple[Topic, bool]:
        """Makes or changes a topic; True when it was made. Raises `TopicConflict`."""
        if draft.sequencer == "redis":
            try:
                self._store.backend.sequence([], by_redis=True)  # before anything is done
            except Refused as error:
                raise TopicConflict(str(error)) from error
        try:
            known = await self._directory.topic(draft.name, create=False)
        except UnknownTopic:
            return await self._directory.make_topic(draft), True
        if draft.kind != known.kind:
            raise TopicConflict(f"topic {draft.name!r} is of kind {known.kind!r}, and the kind of a topic stays")
        if draft.queues < len(known.queues):
            raise TopicConflict(f"topic {draft.name!r} has {len(known.queues)} queues, and queues are never taken away")
        if draft.ordered != known.ordered:
            raise TopicConflict(f"topic {draft.name!r} is {'' if known.ordered else 'not '}ordered, and stays so")
        if known.ordered and draft.queues != len(known.queues):
            raise TopicConflict(f"topic {draft.name!r} is ordered and has {len(known.queues)} queues for good")
        topic = await self._directory.change_topic(await self._directory.make_topic(draft), draft)
        self._tell("catalogue", topic.id)
        return topic, False

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
        """Makes a group or changes its ladder and what exhaustion does; True when it was made.

        Where it begins counts when it is made: at the earliest message, or behind the `latest`, or at the first of the
        time `since`, Unix milliseconds.
        """
        known = name in {group.name for group in self._directory.groups_of(topic)}
        group = await self._directory.group(
            topic, name, create=True, asked_for=True, ladder=ladder, latest=latest, since=since
        )
        if known or block:
            await self._store.write(catalogue.change_group, group, ladder, block=block)
            group = await self._directory.read_group(group)
            self._tell("catalogue", topic.id)
        return group, not known

    async def limit_group(self, group: Group, concurrency: int | None) -> Group:
        """Sets how many messages the group's clients may have in hand at once; None is no limit."""
        await self._store.write(catalogue.limit_group, group, concurrency)
        group = await self._directory.read_group(group)
        self._freed(group.id)
        self._tell("catalogue", group.topic.id)
        return group
