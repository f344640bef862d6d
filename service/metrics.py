"""The metrics of one server, in a registry of their own; their names are part of the API.

Labels are names of topics and groups, routes and error codes: never an id or a key. Users make up the names, so they
are bounded too: beyond `MAX_NAMES` pairs the rest is counted under "(other)", a name that no topic can have.
"""

import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .. import __version__
from .activity import Activity
from .histograms import Histograms, Series

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_NAMES = 1000
OTHER = "(other)"

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_LATENESS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600)
_DURATIONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_REQUESTS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_POSTS = (*_DURATIONS, 30, 60, 300)

_CREATED = "_created"

OfGroup = Literal["delivered", "acked", "retried", "dead", "expired"]


class Metrics:
    """Counts each kind of event; a short method for each."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.activity = Activity(time.monotonic)
        self._names: set[tuple[str, str]] = set()
        self._pending_of: set[str] = set()
        self._lag_of: set[tuple[str, str]] = set()
        """Pairs of topic and group that have a gauge of their lag; `_pending_of` are topics that have gauges of pending
        messages."""
        self._published = self._counter("tarry_messages_published", "Messages accepted.", "topic")
        self._cancelled = self._counter("tarry_messages_cancelled", "Messages cancelled before their time.", "topic")
        self._suppressed = self._counter("tarry_messages_suppressed", "Messages that their guards ended.", "topic")
        self._guard_failures = self._counter("tarry_guard_failures", "Questions that a guard left open.", "guard")
        self._guard_waiting = self._gauge("tarry_guard_waiting_messages", "Due, and their guard is asked.", "guard")
        self._of_group = {
            "delivered": self._counter("tarry_messages_delivered", "Messages handed out in claims.", "topic", "group"),
            "acked": self._counter("tarry_messages_acked", "Messages acknowledged.", "topic", "group"),
            "retried": self._counter("tarry_messages_retried", "Failures put on the ladder.", "topic", "group"),
            "dead": self._counter("tarry_messages_dead", "Messages that exhausted their ladder.", "topic", "group"),
            "expired": self._counter("tarry_messages_expired", "Past their time unsettled.", "topic", "group"),
        }
        about = "From deliver_at to the first hand-out."
        self._lateness = Histograms("tarry_delivery_lateness_seconds", about, ("topic",), _LATENESS)
        self.registry.register(self._lateness)
        about = "One transaction of promotion."
        promotions = Histogram(
            "tarry_promote_batch_duration_seconds", about, buckets=_DURATIONS, registry=self.registry
        )
        self.promote_batch = promotions.observe
        self.lease_lost = self._counter("tarry_lease_lost", "Claims whose lease ran out with messages unsettled.").inc
        self.fenced_write = self._counter("tarry_fenced_writes", "Acks, fails and extensions refused.").inc
        """Counts a settlement refused because the lease was over or another claim holds the message."""
        self._db_errors = self._counter("tarry_db_errors", "What the store could not do.", "code")
        self._push_sent = self._counter("tarry_push_sent", "Messages that an endpoint took.", "topic", "group")
        self._push_failed = self._counter("tarry_push_failed", "Posts that did not come to that.", "topic", "group")
        self._push_broken = self._gauge("tarry_push_broken", "1: the endpoint is away, and tried.", "topic", "group")
        self._push_duration = Histogram(
            "tarry_push_duration_seconds", "One post to an endpoint.", buckets=_POSTS, registry=self.registry
        )
        self._cleaned = self._counter("tarry_cleaned_rows", "Removed because its time was over.", "what")
        self._http_requests = self._counter("tarry_http_requests", "Requests answered.", "route", "method", "status")
        about = (
            "From a request's arrival to the beginning of its answer; those that wait for messages, with their wait."
        )
        of = ("route", "method", "status")
        self._latency = Histograms("tarry_http_request_duration_seconds", about, of, _REQUESTS)
        self.registry.register(self._latency)
        self._answered: dict[tuple[str, str, int], tuple[Counter, Series]] = {}
        """The counter and the series of each (route, method, status): to look them up by labels costs as much as to
        find the route."""
        self._wheel_entries = self._gauge("tarry_wheel_entries", "Timers in the wheel.")
        self._wheel_behind = self._gauge("tarry_wheel_behind_seconds", "By how much the oldest due timer is late.")
        self._clock_skew = self._gauge("tarry_clock_skew_seconds", "The store's clock less the host's.")
        self._pending = self._gauge("tarry_pending_messages", "Messages of a topic that wait.", "topic", "state")
        self._lag = self._gauge("tarry_group_lag_messages", "Messages a group has yet to claim.", "topic", "group")
        self._oldest_due = self._gauge(
            "tarry_oldest_due_age_seconds", "Age of the oldest message due and not promoted."
        )
        self._standing = self._gauge("tarry_queues_standing", "Queues with a hole too wide to be closed.")
        self._set_aside = self._gauge("tarry_rows_set_aside", "Rows that are due and cannot be promoted.")
        build = self._gauge("tarry_build_info", "Always 1.", "version", "python")
        build.labels(__version__, platform.python_version()).set(1)
        ProcessCollector(registry=self.registry)

    def watch(
        self,
        entries: Callable[[], int],
        behind: Callable[[], int],
        ahead: Callable[[], float],
        standing: Callable[[], int],
        spoilt: Callable[[], int],
        held_back: Callable[[], Mapping[str, int]],
    ) -> None:
        """Gives the gauges the functions that they read from: entries in the wheel, milliseconds that its hand is
        behind, seconds that the store's clock is ahead of the host's, queues that stand still, rows that are set aside,
        and by topic how many messages and retries its release rate holds back."""
        self.registry.register(_HeldBack(held_back, lambda topic: self._bounded(topic)[0]))
        self._wheel_entries.set_function(entries)
        self._wheel_behind.set_function(lambda: behind() / 1000)
        self._oldest_due.set_function(lambda: behind() / 1000)
        self._clock_skew.set_function(ahead)
        self._standing.set_function(standing)
        self._set_aside.set_function(spoilt)

    def published(self, topic: str, messages: int) -> None:
        """Counts accepted messages, due now or later; replays of an idempotent request are not counted."""
        self._published.labels(self._bounded(topic)[0]).inc(messages)
        self.activity.count("published", messages)

    def cancelled(self, topic: str, messages: int) -> None:
        """Counts cancelled messages; a repeated cancel is not counted."""
        self._cancelled.labels(self._bounded(topic)[0]).inc(messages)

    def suppressed(self, topic: str, messages: int) -> None:
        self._suppressed.labels(self._bounded(topic)[0]).inc(messages)

    def guard_failed(self, guard: str) -> None:
        """Counts a question that the guard did not answer, or not usably; the messages asked about are held."""
        self._guard_failures.labels(guard).inc()

    def watch_guard(self, guard: str, waiting: Callable[[], int]) -> None:
        """Gives the guard's gauge a function that tells how many due messages wait for its answer."""
        self._guard_failures.labels(guard)
        self._guard_waiting.labels(guard).set_function(waiting)

    def of_group(self, what: OfGroup, topic: str, group: str, messages: int) -> None:
        """Counts messages of a group: handed out in claims, first deliveries and later ones; acknowledged; failed or
        lost, and put on the ladder or among the dead letters; or removed by hard retention though the group had not
        settled them."""
        self._of_group[what].labels(*self._bounded(topic, group)).inc(messages)
        if what != "expired":
            self.activity.count(what, messages)

    def lateness(self, topic: str, seconds: Sequence[float]) -> None:
        """Observes how long after their `deliver_at` messages were first handed out."""
        series = self._lateness.of(self._bounded(topic)[0])
        for one in seconds:
            series.observe(one)
        self.activity.late(seconds)

    def waiting(self, pending: Mapping[str, tuple[int, int]], lags: Mapping[tuple[str, str], int]) -> None:
        """Sets the gauges of waiting messages. By topic: how many of its messages wait for their time, and how many
        deliveries for their rung. By topic and group: how many messages it has yet to claim. A topic or group that is
        left out loses its series."""
        for topic in self._pending_of - pending.keys():
            for state in ("scheduled", "retrying"):
                self._pending.remove(topic, state)
        for names in self._lag_of - lags.keys():
            self._lag.remove(*names)
        self._pending_of, self._lag_of = set(pending), set(lags)
        for topic, (scheduled, retrying) in pending.items():
            self._pending.labels(topic, "scheduled").set(scheduled)
            self._pending.labels(topic, "retrying").set(retrying)
        for names, messages in lags.items():
            self._lag.labels(*names).set(messages)

    def pushed(self, topic: str, group: str, seconds: float, *, sent: bool) -> None:
        """Counts a post of a message to its group's endpoint: how long it took, and whether the endpoint accepted
        it."""
        (self._push_sent if sent else self._push_failed).labels(*self._bounded(topic, group)).inc()
        self._push_duration.observe(seconds)

    def push_broken(self, topic: str, group: str, *, broken: bool) -> None:
        """Sets whether this server considers the group's endpoint unavailable."""
        self._push_broken.labels(*self._bounded(topic, group)).set(broken)

    def push_gone(self, topic: str, group: str) -> None:
        """Removes the gauge of a group whose messages are not pushed any more."""
        self._push_broken.remove(topic, group)

    def cleaned(self, what: str, rows: int) -> None:
        """Counts rows removed by the cleaner; `what` is one of a few kinds of row."""
        self._cleaned.labels(what).inc(rows)

    def db_error(self, code: str | int) -> None:
        """Counts a failure of the store; `code` is the error's name."""
        self._db_errors.labels(str(code)).inc()

    def http_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Counts an answered request and how long after its arrival it was answered; `route` is the path's template."""
        asked = route, method if method in _METHODS else OTHER, status
        known = self._answered.get(asked)
        if known is None:
            counter = self._http_requests.labels(*asked)
            known = self._answered[asked] = counter, self._latency.of(*asked[:2], f"{status // 100}xx")
        known[0].inc()
        known[1].observe(seconds)

    def forget_measures(self) -> None:
        """Removes the gauges of pending messages and of lag: another node reports them now, and here they would be
        stale."""
        self._pending.clear()
        self._lag.clear()
        self._pending_of, self._lag_of = set(), set()

    def forget(self, topic: str, group: str | None = None) -> None:
        """Removes the series of a group that was removed; without a group, those of a topic and all its groups."""
        for names in [names for names in self._names if names[0] == topic and group in (None, names[1])]:
            self._names.discard(names)
            for metric in (*self._of_group.values(), self._push_sent, self._push_failed, self._push_broken):
                metric.remove(*names)
        for names in [names for names in self._lag_of if names[0] == topic and group in (None, names[1])]:
            self._lag_of.discard(names)
            self._lag.remove(*names)
        if group is None:
            self._pending_of.discard(topic)
            self._published.remove(topic)
            self._cancelled.remove(topic)
            self._suppressed.remove(topic)
            self._lateness.remove(topic)
            for state in ("scheduled", "retrying"):
                self._pending.remove(topic, state)

    def text(self) -> bytes:
        return generate_latest(_Told(self.registry))

    def _bounded(self, topic: str, group: str = "") -> tuple[str, str]:
        names = (topic, group)
        if names not in self._names:
            if len(self._names) >= MAX_NAMES:
                return (OTHER, OTHER)
            self._names.add(names)
        return names

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self.registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, registry=self.registry)


class _HeldBack(Collector):
    """How many messages release rates hold back, computed at each scrape. A topic without a release rate is not
    listed."""

    def __init__(self, by_topic: Callable[[], Mapping[str, int]], bounded: Callable[[str], str]) -> None:
        self._by_topic = by_topic
        self._bounded = bounded

    def collect(self) -> Iterable[Metric]:
        """The family as Prometheus reads it; topics that share the name "(other)" are added up."""
        about = "Due, and held back by the release rate."
        family = GaugeMetricFamily("tarry_held_back_messages", about, labels=["topic"])
        found: dict[str, int] = {}
        for topic, many in self._by_topic().items():
            name = self._bounded(topic)
            found[name] = found.get(name, 0) + many
        for name, many in found.items():
            family.add_metric([name], many)
        yield family


class _Told(CollectorRegistry):
    """A registry's metrics without the `_created` series, one more for each counter that nobody asks for. The switch of
    prometheus_client for this applies to the whole process, which may belong to another program."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._of = registry

    def collect(self) -> Iterable[Metric]:
        """Every family, without its `_created` samples."""
        for family in self._of.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith(_CREATED)]
            yield family
