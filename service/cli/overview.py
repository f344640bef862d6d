"""Collects what `top` shows: the state of a server's topics and nodes, from its HTTP API and metrics."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from attrs import frozen
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ...client import NotFound, Tarry
from .rendering import time_text

Sort: TypeAlias = Literal["name", "rate", "backlog"]
Histogram: TypeAlias = Mapping[float, float]
"""By bound in seconds: how many messages were at most that late."""

_LATENESS = "tarry_delivery_lateness_seconds"
_HELD_BACK = "tarry_held_back_messages"


@frozen
class Overview:
    record: Mapping[str, Any]
    """`at`, `topics` and `nodes`, with the field names of the HTTP API, and computed fields."""
    lateness: Mapping[str, Histogram]
    """By topic, since the server's start; the next look subtracts it."""


def look(tarry: Tarry, sort: Sort, limit: int, before: Overview | None) -> Overview:
    """Looks at the first topics in this order. Lateness covers messages handed out since the look before, or since the
    server's start if there was none. Raises the client's errors."""
    metrics = tarry.metrics()
    lateness, held_back = read_lateness(metrics), read_held_back(metrics)
    topics: list[dict[str, Any]] = []
    for topic in tarry.topics(sort, limit=limit):
        try:
            told = tarry.topic(topic["topic"])
        except NotFound:
            continue  # removed meanwhile
        name = topic["topic"]
        late = _since(lateness.get(name, {}), {} if before is None else before.lateness.get(name, {}))
        lags = [{"group": group["group"], "backlog": group["backlog"]} for group in told["groups"]]
        quantiles = {"late_p50": quantile(late, 0.5), "late_p99": quantile(late, 0.99)}
        # The metrics cover all processes, but name a limited number of topics, and none without a release rate.
        held = held_back.get(name, told.get("held_back", 0))
        topics.append({**topic, "held_back": held, "groups": lags, **quantiles})
    record = {"at": time_text(datetime.now(UTC)), "topics": topics, "nodes": tarry.nodes()}
    return Overview(record, lateness)


def read_lateness(text: str) -> dict[str, dict[float, float]]:
    """The lateness histogram of each topic in a server's metrics, added up over its processes."""
    found: dict[str, dict[float, float]] = {}
    for sample in _samples(text, _LATENESS):
        if sample.name == f"{_LATENESS}_bucket":
            counts = found.setdefault(sample.labels["topic"], {})
            bound = float(sample.labels["le"])
            counts[bound] = counts.get(bound, 0.0) + sample.value
    return found


def read_held_back(text: str) -> dict[str, int]:
    """How many messages the release rate holds back, by topic that has one, in a server's metrics, added up over its
    processes."""
    found: dict[str, int] = {}
    for sample in _samples(text, _HELD_BACK):
        topic = sample.labels["topic"]
        found[topic] = found.get(topic, 0) + round(sample.value)
    return found


def _samples(text: str, name: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        if family.name == name:
            yield from family.samples


def _since(now: Histogram, before: Histogram) -> dict[float, float]:
    """The difference between two looks; all of `now` if the server was restarted in between."""
    came = {bound: count - before.get(bound, 0.0) for bound, count in now.items()}
    return dict(now) if any(count < 0 for count in came.values()) else came


def quantile(histogram: Histogram, part: float) -> int | None:
    """The upper bound, in milliseconds, of the lateness of this part of the messages. None without messages; beyond the
    last finite bound, that bound."""
    bounds = sorted(histogram)
    if not bounds or histogram[bounds[-1]] <= 0:
        return None
    wanted = part * histogram[bounds[-1]]
    kept = next(bound for bound in bounds if histogram[bound] >= wanted)
    return round(1000 * (kept if kept != float("inf") else max((b for b in bounds if b != kept), default=0.0)))


def worst(groups: Iterable[Mapping[str, Any]]) -> tuple[int, str]:
    return max(((group["backlog"], group["group"]) for group in groups), default=(0, ""))
