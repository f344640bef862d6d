"""Doorbells: a bell for each group that somebody has asked for here, rung when there may be something to claim."""

from collections import defaultdict
from typing import Any, Generic, Protocol, TypeVar

import trio
from attrs import define, field

from ....store.records import Group


class Caller(Protocol):
    """A caller that waits for messages of a group."""

    answered: trio.Event


Who = TypeVar("Who", bound=Caller)


@define(eq=False)
class Doorbell(Generic[Who]):
    """The bell of one group. Its coordinator waits here, and keeps here the callers that wait for messages."""

    asking: dict[Who, None] = field(factory=dict[Who, None], init=False)
    """The waiting callers, in order: ten thousand may wait, and each leaves when it likes."""
    may_find: bool = field(default=True, init=False)
    """Whether a turn may find messages: not after one that left none."""
    full: bool = field(default=False, init=False)
    """The group has as many messages in hand as it may, until something is settled."""
    retired: bool = field(default=False, init=False)
    """The group is removed."""
    wake: trio.Event = field(factory=trio.Event, init=False)

    def ring(self) -> None:
        """There may be messages for this group."""
        if self.full:
            return  # none of them may be handed out before something is settled
        self.may_find = True
        if self.asking:
            self.wake.set()

    def look_again(self) -> None:
        """There may be messages, or room for more in hand, whatever the last turn has found: another node, an operator
        or a user's transaction has done something."""
        self.full = False
        self.ring()

    def send_home(self) -> None:
        """Returns empty to all callers that wait."""
        for one in self.asking:
            one.answered.set()
        self.asking.clear()

    def retire(self) -> None:
        """Ends the bell: the group is removed."""
        self.retired = True
        self.send_home()
        self.wake.set()


@define(eq=False)
class Doorbells:
    """The bells of all groups that were asked for here: of a topic with very many groups only those are rung."""

    _by_group: dict[int, Doorbell[Any]] = field(factory=dict[int, Doorbell[Any]], init=False)
    _of_topic: defaultdict[int, list[Doorbell[Any]]] = field(factory=lambda: defaultdict(list), init=False)

    def open(self, group: Group) -> Doorbell[Any]:
        """A new bell for a group that has none."""
        bell = self._by_group[group.id] = Doorbell[Any]()
        self._of_topic[group.topic.id].append(bell)
        return bell

    def retire(self, group: Group) -> None:
        """Ends the bell of a group that is gone, and with it the coordinator."""
        if (bell := self._by_group.pop(group.id, None)) is not None:
            self._of_topic[group.topic.id].remove(bell)
            if not self._of_topic[group.topic.id]:
                del self._of_topic[group.topic.id]
            bell.retire()

    @property
    def awaited(self) -> set[int]:
        """The ids of groups for whose messages somebody waits."""
        return {id_ for id_, bell in self._by_group.items() if bell.asking}

    def ring_topic(self, topic_id: int) -> None:
        """Rings the bells of a topic's groups: a queue of it has grown."""
        for bell in self._of_topic.get(topic_id, ()):
            bell.ring()

    def ring_group(self, group_id: int) -> None:
        """Rings the bell of one group: its retry queue has grown, or there may be messages for another reason."""
        if (bell := self._by_group.get(group_id)) is not None:
            bell.ring()

    def look_again(self, group_id: int) -> None:
        """There may be messages for the group, or room for more in hand, whatever its last turn has found."""
        if (bell := self._by_group.get(group_id)) is not None:
            bell.look_again()
