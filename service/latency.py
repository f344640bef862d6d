"""The histogram of how long requests take: own counts, since prometheus_client's cost as much as the router."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from attrs import define, field
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


@define
class Series:
    """Of one route, method and class of status."""

    bounds: Sequence[float]
    counts: list[int]
    """Requests in each bucket, the last without a bound."""
    seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        """One request."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds


@define(eq=False)
class Latency(Collector):
    """Seconds from a request's arrival to the beginning of its answer. Labels are as few as there are routes."""

    _name: str
    _about: str
    _bounds: Sequence[float]
    _series: dict[tuple[str, str, str], Series] = field(factory=dict[tuple[str, str, str], Series], init=False)

    def of(self, route: str, method: str, status: str) -> Series:
        """What to observe on; `status` is a class, such as 2xx."""
        asked = route, method, status
        known = self._series.get(asked)
        if known is None:
            known = self._series[asked] = Series(self._bounds, [0] * (len(self._bounds) + 1))
        return known

    def collect(self) -> Iterable[Metric]:
        """As Prometheus reads it: each bucket holds those before it."""
        family = HistogramMetricFamily(self._name, self._about, labels=["route", "method", "status"])
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for asked, own in self._series.items():
            family.add_metric(asked, list(zip(bounds, accumulate(own.counts), strict=True)), own.seconds)
        yield family
