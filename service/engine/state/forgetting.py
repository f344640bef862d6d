"""Forgetting: a topic or a group is gone, here or at another node, and this node forgets it."""

from attrs import frozen

from ....store.records import Group, Topic
from ....store.store import Store
from ...metrics import Metrics
from .cleaning_notes import CleaningNotes
from .doorbells import Doorbells
from .listeners import Listeners


@frozen
class Forgetting:
    """Forgets what is no more; whoever waits for it is woken."""

    _store: Store
    _metrics: Metrics
    _listeners: Listeners
    _doorbells: Doorbells
    _cleaning: CleaningNotes

    def topic_gone(self, topic: Topic) -> None:
        """Its readers are woken, its series end."""
        for queue in topic.queues:
            self._listeners.notify(queue.id)
        self._metrics.forget(topic.name)

    def group_gone(self, group: Group) -> None:
        """Its coordinator ends, and what others keep of it."""
        self._doorbells.retire(group)
        self._cleaning.forget(group)
        self._store.forget_group(group)
        if group.topic.kind == "broadcast":
            for queue in group.topic.queues:
                self._listeners.notify(queue.id)
        self._metrics.forget(group.topic.name, group.name)
