"""Accepted: counts messages that were published here, by an outbox or by a schedule."""

from collections import Counter

from attrs import frozen

from ....store.schedules.course import Fired
from ...metrics import Metrics
from ..signals import Signals
from ..state.directory import Directory
from ..state.rates import Rates


@frozen(eq=False)
class Accepted:
    _directory: Directory
    _metrics: Metrics
    _rates: Rates
    _signals: Signals

    def count(self, topic_id: int, messages: int) -> None:
        """Counts messages of a topic that were published, or are heard of now."""
        if messages:
            self._metrics.published(self._directory.name_of(topic_id), messages)
            self._rates.count(topic_id, published=messages)

    def fired(self, fired: Fired) -> None:
        """Schedules have gone on: changes their timers, and counts their new messages."""
        if fired.dropped:
            for due, id_ in fired.dropped:
                self._signals.timer_gone(due, id_)
        if fired.armed:
            for one in fired.armed:
                self._signals.timer_added(one.due, one.id)
            for topic_id, messages in Counter([one.topic_id for one in fired.armed if one.fresh]).items():
                self.count(topic_id, messages)
