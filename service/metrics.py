"""The metrics of one server, in a registry of their own; the names are the contract's.

Labels are names of topics and groups, routes and error codes: never an id or a key. Names are made by users, so they
are bounded too: past `MAX_NAMES` pairs the rest is counted under "(other)", which no topic can be called.
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
    """A short method for each thing worth counting."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.activity = Activity(time.monotonic)
        self._names: set[tuple[str, str]] = set()
        self._pending_of: set[str] = set()
        self._lag_of: set[tuple[str, str]] = set()
        """Topics, and groups by topic, that have measures of what waits."""
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
        self._promote_batch = Histogram(
            "tarry_promote_batch_duration_seconds",
            "One transaction of promotion.",
            buckets=_DURATIONS,
            registry=self.registry,
        )
        self._lease_lost = self._counter("tarry_lease_lost", "Claims whose lease ran out with messages unsettled.")
        self._fenced_writes = self._counter("tarry_fenced_writes", "Acks, fails and extensions refused.")
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
        """Of both, whose own look-up costs as much as a lookup of the route."""
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
        """From now on the gauges ask these: the wheel's entries, milliseconds that the hand is behind, seconds that the
        store's clock is ahead of the host's, queues that stand still, rows that are set aside, and by topic how many
        messages and retries its release rate holds back."""
        self.registry.register(_HeldBack(held_back, lambda topic: self._bounded(topic)[0]))
        self._wheel_entries.set_function(entries)
        self._wheel_behind.set_function(lambda: behind() / 1000)
        self._oldest_due.set_function(lambda: behind() / 1000)
        self._clock_skew.set_function(ahead)
        self._standing.set_function(standing)
        self._set_aside.set_function(spoilt)

    def published(self, topic: str, messages: int) -> None:
        """Accepted, for now or for later; replays are not counted."""
        self._published.labels(self._bounded(topic)[0]).inc(messages)
        self.activity.count("published", messages)

    def cancelled(self, topic: str, messages: int) -> None:
        """Cancelled for the first time."""
        self._cancelled.labels(self._bounded(topic)[0]).inc(messages)

    def suppressed(self, topic: str, messages: int) -> None:
        """Ended by their guards."""
        self._suppressed.labels(self._bounded(topic)[0]).inc(messages)

    def guard_failed(self, guard: str) -> None:
        """It has not answered, or nothing that can be gone by; what it was asked of is held."""
        self._guard_failures.labels(guard).inc()

    def watch_guard(self, guard: str, waiting: Callable[[], int]) -> None:
        """From now on its gauge asks this: how many messages are due and wait for its answer."""
        self._guard_failures.labels(guard)
        self._guard_waiting.labels(guard).set_function(waiting)

    def of_group(self, what: OfGroup, topic: str, group: str, messages: int) -> None:
        """Handed out in claims, first deliveries and later ones; acknowledged; failed or lost, and put on the ladder,
        or among the dead letters; or taken by the hard limit of retention, though the group had not settled them."""
        self._of_group[what].labels(*self._bounded(topic, group)).inc(messages)
        if what != "expired":
            self.activity.count(what, messages)

    def lateness(self, topic: str, seconds: Sequence[float]) -> None:
        """How long after their `deliver_at` messages were first handed out."""
        series = self._lateness.of(self._bounded(topic)[0])
        for one in seconds:
            series.observe(one)
        self.activity.late(seconds)

    def waiting(self, pending: Mapping[str, tuple[int, int]], lags: Mapping[tuple[str, str], int]) -> None:
        """By topic: how many of its messages wait for their time, and how many deliveries for their rung. By topic and
        group: how many messages it has yet to claim. Whoever is left out has no series any more."""
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

    def promote_batch(self, seconds: float) -> None:
        """How long one transaction of promotion took."""
        self._promote_batch.observe(seconds)

    def lease_lost(self, claims: int) -> None:
        """Claims that ended unsettled."""
        self._lease_lost.inc(claims)

    def fenced_write(self) -> None:
        """A settlement refused because the lease was over or the message in other hands."""
        self._fenced_writes.inc()

    def pushed(self, topic: str, group: str, seconds: float, *, sent: bool) -> None:
        """A message was posted to its group's endpoint: how long that took, and whether it is done."""
        (self._push_sent if sent else self._push_failed).labels(*self._bounded(topic, group)).inc()
        self._push_duration.observe(seconds)

    def push_broken(self, topic: str, group: str, *, broken: bool) -> None:
        """Whether this server takes a group's endpoint for away."""
        self._push_broken.labels(*self._bounded(topic, group)).set(broken)

    def push_gone(self, topic: str, group: str) -> None:
        """Nothing is posted for this group any more."""
        self._push_broken.remove(topic, group)

    def cleaned(self, what: str, rows: int) -> None:
        """Removed by the cleaner; `what` is one of a few kinds of row."""
        self._cleaned.labels(what).inc(rows)

    def db_error(self, code: str | int) -> None:
        """The store could not do something; `code` is the error's name."""
        self._db_errors.labels(str(code)).inc()

    def http_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered, so long after it came; `route` is the path's template."""
        asked = route, method if method in _METHODS else OTHER, status
        known = self._answered.get(asked)
        if known is None:
            counter = self._http_requests.labels(*asked)
            known = self._answered[asked] = counter, self._latency.of(*asked[:2], f"{status // 100}xx")
        known[0].inc()
        known[1].observe(seconds)

    def forget_measures(self) -> None:
        """Another node tells what waits and who lags; here it would be old."""
        self._pending.clear()
        self._lag.clear()
        self._pending_of, self._lag_of = set(), set()

    def forget(self, topic: str, group: str | None = None) -> None:
        """The series of a group that was removed; without one, those of a topic and of its groups."""
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
        """All of it as Prometheus reads it."""
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
    """What release rates hold back, asked for when it is read. A topic whose rate was taken away is not told of."""

    def __init__(self, by_topic: Callable[[], Mapping[str, int]], bounded: Callable[[str], str]) -> None:
        self._by_topic = by_topic
        self._bounded = bounded

    def collect(self) -> Iterable[Metric]:
        """As Prometheus reads it; those that have no name of their own are added up."""
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
    """What is told of a registry: without `_created`, a series more for each counter that nobody asks for. The switch
    that prometheus_client has for it is the whole process's, which may be somebody else's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._of = registry

    def collect(self) -> Iterable[Metric]:
        """All families."""
        for family in self._of.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith(_CREATED)]
            yield family
