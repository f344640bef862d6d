"""Signals: what one part of the engine does and another has to know. A call of a method here is a wire between parts.

Made before the parts and handed to them. What it tells is passive: what is pending, bells, listeners, and the notices
for other nodes.
"""

from collections.abc import Iterable, Sequence

from attrs import frozen

from ...store.records import Promoted
from ..notices import Notices
from .state.directory import Directory
from .state.doorbells import Doorbells
from .state.listeners import Listeners
from .state.pending import Pending
from .state.unsealed import Unsealed


@frozen(eq=False)
class Signals:
    """None of it waits."""

    pending: Pending
    directory: Directory
    listeners: Listeners
    doorbells: Doorbells
    unsealed: Unsealed
    notices: Notices | None
    """None without a Redis."""

    def timer_added(self, due: int, entry: int) -> None:
        """A row waits for its time, since its commit."""
        self.pending.add(due, entry)

    def timers_added(self, timers: Iterable[tuple[int, int]]) -> None:
        """The same of several, each a (due, entry)."""
        for due, entry in timers:
            self.pending.add(due, entry)

    def timer_gone(self, due: int, entry: int) -> None:
        """It waits no more, or for another time."""
        self.pending.cancel(due, entry)

    def streamed(self, promoted: Sequence[Promoted]) -> None:
        """What was due is in its queues."""
        self.pending.went(promoted)
        for queue_id in {one.queue_id for one in promoted}:
            self.queue_written(queue_id)

    def queue_written(self, queue_id: int) -> None:
        """Messages of ours are in the queue. Readers may pass them once it is sealed, where Redis draws its offsets."""
        topic = self.directory.topic_of_queue(queue_id)
        if topic is not None and topic.sequencer != "store":
            self.unsealed.committed(queue_id)
        else:
            self.queue_grown(queue_id)

    def queue_grown(self, queue_id: int) -> None:
        """It has grown by our hand: other nodes hear of it too."""
        self.queue_seen(queue_id)
        if self.notices is not None:
            self.notices.tell("grown", queue_id)

    def queue_seen(self, queue_id: int) -> None:
        """It has grown, by whomever: its readers at this node are woken."""
        self.listeners.notify(queue_id)
        if (topic := self.directory.topic_of_queue(queue_id)) is not None:
            self.doorbells.ring_topic(topic.id)
        elif (group := self.directory.group_of_queue(queue_id)) is not None:
            self.doorbells.ring_group(group.id)

    def group_freed(self, group_id: int) -> None:
        """It may have more in hand, or nothing for now: its clients at this node are looked after."""
        self.doorbells.look_again(group_id)

    def group_changed(self, group_id: int) -> None:
        """There may be something to claim for its clients at other nodes."""
        if self.notices is not None:
            self.notices.tell("group", group_id)

    def catalogue_changed(self, topic_id: int) -> None:
        """Other nodes are to read the topic and its groups anew."""
        if self.notices is not None:
            self.notices.tell("catalogue", topic_id)
