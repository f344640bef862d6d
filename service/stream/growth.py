"""Growth: a queue has more in it than before, and whoever reads it hears of that, here and at the other nodes."""

from attrs import frozen

from ..groups.groups import Groups
from ..notices import Notices
from ..topics.directory import Directory
from .listeners import Listeners
from .sealer import Sealer


@frozen
class Growth:
    """Wakes whoever waits for a queue, here and elsewhere."""

    directory: Directory
    listeners: Listeners
    groups: Groups
    sealer: Sealer
    notices: Notices | None
    """None without a Redis."""

    def committed(self, queue_id: int) -> None:
        """Messages of ours are in the queue. Readers may pass them once it is sealed, where Redis draws its offsets."""
        topic = self.directory.topic_of_queue(queue_id)
        if topic is not None and topic.sequencer != "store":
            self.sealer.committed(queue_id)
        else:
            self.ours(queue_id)

    def ours(self, queue_id: int) -> None:
        """It has grown by our hand: other nodes hear of it too."""
        self.seen(queue_id)
        if self.notices is not None:
            self.notices.tell("grown", queue_id)

    def seen(self, queue_id: int) -> None:
        """It has grown, by whomever: its readers at this node are woken."""
        self.listeners.notify(queue_id)
        self.groups.notify(queue_id)
