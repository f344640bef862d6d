"""Signals: the calls by which one part of the engine tells others what it has done.

Made before the parts and handed to them. They reach passive things only: pending timers, doorbells, listeners, and the
notices for other nodes.
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
    """No method here waits."""

    pending: Pending
    directory: Directory
    listeners: Listeners
    doorbells: Doorbells
    unsealed: Unsealed
    notices: Notices | None
    """None without Redis."""

    def timer_added(self, due: int, entry: int) -> None:
        """A row that waits for its time has been committed: its timer is pending."""
        self.pending.add(due, entry)

    def timers_added(self, timers: Iterable[tuple[int, int]]) -> None:
        """The same for several timers, each a (due, entry)."""
        for due, entry in timers:
            self.pending.add(due, entry)

    def timer_gone(self, due: int, entry: int) -> None:
        """The row waits no more, or for another time: its timer is cancelled."""
        self.pending.cancel(due, entry)

    def streamed(self, promoted: Sequence[Promoted]) -> None:
        """Messages that were due are in their queues."""
        self.pending.went(promoted)
        for queue_id in {one.queue_id for one in promoted}:
            self.queue_written(queue_id)

    def queue_written(self, queue_id: int) -> None:
        """This node has written messages to the queue. Where Redis draws the offsets, readers see them once the queue
        is sealed."""
        topic = self.directory.topic_of_queue(queue_id)
        if topic is not None and topic.sequencer != "store":
            self.unsealed.committed(queue_id)
        else:
            self.queue_grown(queue_id)

    def queue_grown(self, queue_id: int) -> None:
        """The queue has grown through this node: its readers are woken here and at other nodes."""
        self.queue_seen(queue_id)
        if self.notices is not None:
            self.notices.tell("grown", queue_id)

    def queue_seen(self, queue_id: int) -> None:
        """The queue has grown, through any node: its readers at this node are woken."""
        self.listeners.notify(queue_id)
        if (topic := self.directory.topic_of_queue(queue_id)) is not None:
            self.doorbells.ring_topic(topic.id)
        elif (group := self.directory.group_of_queue(queue_id)) is not None:
            self.doorbells.ring_group(group.id)

    def group_freed(self, group_id: int) -> None:
        """The group may claim more now, or nothing for the time being: its clients at this node look again."""
        self.doorbells.look_again(group_id)

    def group_changed(self, group_id: int) -> None:
        """There may be something to claim for the group's clients at other nodes."""
        if self.notices is not None:
            self.notices.tell("group", group_id)

    def catalogue_changed(self, topic_id: int) -> None:
        """Other nodes have to read the topic and its groups anew."""
        if self.notices is not None:
            self.notices.tell("catalogue", topic_id)
