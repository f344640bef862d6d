"""Removal: a topic or a group is no more, here or at another node, and nothing of it is kept."""

from attrs import frozen

from ...store.records import Group, Topic
from ...store.store import Store
from ..groups.groups import Groups
from ..metrics import Metrics
from ..stream.listeners import Listeners
from ..upkeep.cleaner import Cleaner


@frozen
class Removal:
    """Who is told of what is no more. Readers go home."""

    _store: Store
    _metrics: Metrics
    _listeners: Listeners
    _groups: Groups
    _cleaner: Cleaner

    def topic_gone(self, topic: Topic) -> None:
        """Nobody waits for its queues, nor counts anything of it."""
        for queue in topic.queues:
            self._listeners.notify(queue.id)
        self._metrics.forget(topic.name)

    def group_gone(self, group: Group) -> None:
        """Nobody claims for it any more."""
        self._groups.retire(group)
        self._cleaner.forget(group)
        self._store.forget_group(group)
        if group.topic.kind == "broadcast":
            for queue in group.topic.queues:
                self._listeners.notify(queue.id)
        self._metrics.forget(group.topic.name, group.name)
