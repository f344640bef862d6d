"""Forgetting: drops what this node keeps of a topic or a group that is gone, here or at another node."""

from attrs import frozen

from ....store.records import Group, Topic
from ....store.store import Store
from ...metrics import Metrics
from .cleaning_notes import CleaningNotes
from .doorbells import Doorbells
from .listeners import Listeners


@frozen
class Forgetting:
    """Forgets what is gone, and wakes those who wait for it."""

    _store: Store
    _metrics: Metrics
    _listeners: Listeners
    _doorbells: Doorbells
    _cleaning: CleaningNotes

    def topic_gone(self, topic: Topic) -> None:
        for queue in topic.queues:
            self._listeners.notify(queue.id)
        self._metrics.forget(topic.name)

    def group_gone(self, group: Group) -> None:
        """Ends the group's coordinator, and drops what other parts keep of it."""
        self._doorbells.retire(group)
        self._cleaning.forget(group)
        self._store.forget_group(group)
        if group.topic.kind == "broadcast":
            for queue in group.topic.queues:
                self._listeners.notify(queue.id)
        self._metrics.forget(group.topic.name, group.name)
