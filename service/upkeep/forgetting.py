"""Forgetting: a topic or a group is gone, here or at another node, and this node forgets it."""

from attrs import frozen

from ...store.records import Group, Topic
from ...store.store import Store
from ..groups.groups import Groups
from ..metrics import Metrics
from ..stream.listeners import Listeners
from .cleaner import Cleaner


@frozen
class Forgetting:
    """Forgets what is no more; whoever waits for it is woken."""

    _store: Store
    _metrics: Metrics
    _listeners: Listeners
    _groups: Groups
    _cleaner: Cleaner

    def topic_gone(self, topic: Topic) -> None:
        """Its readers are woken, its series end."""
        for queue in topic.queues:
            self._listeners.notify(queue.id)
        self._metrics.forget(topic.name)

    def group_gone(self, group: Group) -> None:
        """Its coordinator ends, and what others keep of it."""
        self._groups.retire(group)
        self._cleaner.forget(group)
        self._store.forget_group(group)
        if group.topic.kind == "broadcast":
            for queue in group.topic.queues:
                self._listeners.notify(queue.id)
        self._metrics.forget(group.topic.name, group.name)
