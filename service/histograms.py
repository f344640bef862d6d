"""Histograms that keep their own counts: those of prometheus_client cost as much as routing, and a twelfth of a
claim."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from attrs import define, field
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


@define
class Series:
    bounds: Sequence[float]
    counts: list[int]
    """Observations in each bucket; the last bucket has no upper bound."""
    seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds


@define(eq=False)
class Histograms(Collector):
    """Histograms of seconds, by labels; the caller bounds the number of labels."""

    _name: str
    _about: str
    _labels: Sequence[str]
    _bounds: Sequence[float]
    _series: dict[tuple[str, ...], Series] = field(factory=dict[tuple[str, ...], Series], init=False)

    def of(self, *labels: str) -> Series:
        """The series of these labels, to observe on."""
        known = self._series.get(labels)
        if known is None:
            known = self._series[labels] = Series(self._bounds, [0] * (len(self._bounds) + 1))
        return known

    def remove(self, *labels: str) -> None:
        """Removes the series of these labels, since what they name is gone."""
        self._series.pop(labels, None)

    def collect(self) -> Iterable[Metric]:
        """The family as Prometheus reads it: the counts of the buckets are cumulative."""
        family = HistogramMetricFamily(self._name, self._about, labels=self._labels)
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for labels, own in self._series.items():
            family.add_metric(labels, list(zip(bounds, accumulate(own.counts), strict=True)), own.seconds)
        yield family
