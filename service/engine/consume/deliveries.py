"""Deliveries: counts messages that were handed out, for the metrics and for the rates of topics."""

from collections.abc import Sequence

from attrs import frozen

from ....store.records import Delivered, Group
from ...metrics import Metrics
from ..state.rates import Rates


@frozen(eq=False)
class Deliveries:
    _metrics: Metrics
    _rates: Rates

    def note(self, group: Group, messages: Sequence[Delivered], at: int, *, first: bool = True) -> None:
        """Counts these messages as handed out at that time; for the `first` time, or once more."""
        self._metrics.of_group("delivered", group.topic.name, group.name, len(messages))
        self._rates.count(group.topic.id, delivered=len(messages))
        if not first:
            return
        # A message whose time was past when it was accepted was due then.
        dues = [max(message.deliver_at, message.accepted_at) for message in messages if message.attempt == 1]
        self._metrics.lateness(group.topic.name, [(at - due) / 1000 for due in dues])
