"""Growth: a queue has more in it than before, and whoever reads it hears of that, here and at the other nodes."""

from attrs import frozen

from ..groups.groups import Groups
from ..topics.directory import Directory
from .bells import Bells
from .nudges import Nudges
from .sealer import Sealer


@frozen
class Growth:
    """Who is told of a queue that has grown."""

    _directory: Directory
    _bells: Bells
    _groups: Groups
    _sealer: Sealer
    _nudges: Nudges | None
    """None without a Redis."""

    def committed(self, queue_id: int) -> None:
        """Messages of ours are in the queue. Readers may pass them once it is sealed, where Redis draws its offsets."""
        topic = self._directory.topic_of_queue(queue_id)
        if topic is not None and topic.sequencer != "store":
            self._sealer.needed = True
            self._sealer.touch(queue_id)
        else:
            self.ours(queue_id)

    def ours(self, queue_id: int) -> None:
        """It has grown by our hand: other nodes are told too."""
        self.seen(queue_id)
        if self._nudges is not None:
            self._nudges.tell(queue_id)

    def seen(self, queue_id: int) -> None:
        """It has grown, by whomever: its readers at this node are told."""
        self._bells.ring(queue_id)
        self._groups.nudge(queue_id)
