"""The histogram of lateness, a claim's messages at a time: to observe each by itself was a twelfth of a claim."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from attrs import define, field
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


@define
class _OfTopic:
    counts: list[int]
    """Messages in each bucket, the last without a bound."""
    seconds: float = 0.0


@define(eq=False)
class Lateness(Collector):
    """Seconds from `deliver_at` to the first hand-out, by topic."""

    _name: str
    _about: str
    _bounds: Sequence[float]
    _topics: dict[str, _OfTopic] = field(factory=dict[str, _OfTopic], init=False)

    def observe(self, topic: str, seconds: Iterable[float]) -> None:
        """Messages of one topic that were so late."""
        own = self._topics.get(topic)
        if own is None:
            own = self._topics[topic] = _OfTopic([0] * (len(self._bounds) + 1))
        counts, bounds = own.counts, self._bounds
        for one in seconds:
            counts[bisect_left(bounds, one)] += 1
            own.seconds += one

    def remove(self, topic: str) -> None:
        """The topic is gone."""
        self._topics.pop(topic, None)

    def collect(self) -> Iterable[Metric]:
        """As Prometheus reads it: each bucket holds those before it."""
        family = HistogramMetricFamily(self._name, self._about, labels=["topic"])
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for topic, own in self._topics.items():
            family.add_metric([topic], list(zip(bounds, accumulate(own.counts), strict=True)), own.seconds)
        yield family
