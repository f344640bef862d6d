"""The overview page: the server's health, its rates, and what falls due when."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..api import Refused
from ..page import Page
from ..pictures.bars import bars
from ..pictures.heat import heat
from ..pictures.ring import ring
from ..tables import Column, Table
from ..visit import Visit
from ..words import clock, day, milliseconds

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_RECENT = 10
"""Seconds over which the rates in the tiles are averaged."""
STRETCHES = (("hour", _MINUTE, 60), ("day", _HOUR, 24), ("month", _DAY, 30))
"""The stretches of time of which a picture is drawn: name, width of a bar, number of bars."""


async def overview(visit: Visit) -> Page:
    """The page with the live figures; the pictures are loaded separately, as they cost more."""
    api = visit.api
    topics: Any = await api.try_get("/v1/topics", {"sort": "rate", "max": 10})
    nodes: Any = await api.try_get("/v1/nodes")
    activity: Any = await api.try_get("/v1/activity")
    wheel: Any = await api.try_get("/v1/wheel")
    ranked: list[Mapping[str, Any]] = [] if topics is None else topics["topics"]
    table = busiest(ranked)
    facts = {
        "checks": [*await checks(visit), *await held(visit)],
        "nodes": None if nodes is None else nodes["nodes"],
        "rates": None if activity is None else _rates(activity),
        "node": None if activity is None else activity["node"],
        "series": None if activity is None else _series(activity),
        "wheel": None if wheel is None else {"entries": wheel["entries"], "behind": wheel["behind"]},
        "table": table,
        "may_see_all": topics is not None,
        "sums": {name: sum(one[name] for one in ranked) for name in ("pending", "backlog")},
        "partial": topics is not None and topics["cursor"] is not None,
    }
    return Page("overview", "Overview", facts, [table])


async def pictures(visit: Visit) -> Page:
    """The pictures of the wheel, of what falls due, and of lateness."""
    wheel: Any = await visit.api.try_get("/v1/wheel")
    activity: Any = await visit.api.try_get("/v1/activity")
    facts: dict[str, Any] = {"ring": None, "heat": None, "due": []}
    if wheel is not None:
        facts["ring"] = ring(wheel["slots"], wheel["hand"])
        facts["node"] = wheel["node"]
        facts["due"] = [("minute", _next_minute(wheel["slots"], wheel["hand"]), None)]
        facts["due"] += await falling_due(visit, "/v1/upcoming")
    if activity is not None:
        late = activity["lateness"]
        facts["late_at"] = activity["node"]
        facts["heat"] = heat(late["counts"], late["bounds"], late["step"])
    return Page("pictures", "Pictures", facts)


async def falling_due(visit: Visit, path: str) -> list[tuple[str, str, str | None]]:
    """For each stretch its name, its bars, and until when messages were counted, if not to its end."""
    found: list[tuple[str, str, str | None]] = []
    for name, width, buckets in STRETCHES:
        upcoming: Any = await visit.api.try_get(path, {"width": width, "buckets": buckets})
        if upcoming is not None:
            told = day if width == _DAY else clock
            times = [milliseconds(one["at"]) for one in upcoming["buckets"]]
            labels = [told(one) for one in times]
            counts = [one["messages"] for one in upcoming["buckets"]]
            counts += [0] * (buckets - len(counts))
            labels += [""] * (buckets - len(labels))
            drawn = bars(counts, labels, f"Due in the next {name}", times=times, form=told.__name__)
            found.append((name, drawn, upcoming["counted_until"]))
    return found


def _next_minute(slots: Sequence[int], hand: int) -> str:
    counts = [slots[(hand + ahead) % len(slots)] for ahead in range(60)]
    return bars(counts, [f"+{ahead} s" for ahead in range(60)], "Due in the next minute")


async def checks(visit: Visit) -> list[Mapping[str, Any]]:
    """The checks of /readyz, whether the server is ready or not."""
    try:
        told: Any = await visit.api.get("/readyz", {"verbose": 1})
    except Refused as error:
        return list(error.problem.get("checks") or [{"check": "ready", "ok": False, "detail": error.detail}])
    return list(told.get("checks") or [])


async def held(visit: Visit) -> list[Mapping[str, Any]]:
    """Guards that hold messages, as failed checks."""
    told: Any = await visit.api.try_get("/v1/guards")
    guards: list[Mapping[str, Any]] = [] if told is None else told["guards"]
    return [
        {"check": f"guard {one['guard']}", "ok": False, "detail": f"{one['holds']} ({one['waiting']} waiting)"}
        for one in guards
        if one["holds"]
    ]


def busiest(topics: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        name="busiest",
        caption="Busiest topics",
        columns=(
            Column("topic", "Topic", "name", to="/ui/topics/{topic}"),
            Column("published_rate", "In /s", "rate"),
            Column("delivered_rate", "Out /s", "rate"),
            Column("pending", "Waiting", "number"),
            Column("backlog", "Backlog", "number"),
        ),
        rows=topics,
        path="/v1/topics",
        query={"sort": "rate", "max": 10},
        cli=("tarry", "topics", "--sort", "rate"),
        empty="There is no topic yet. A topic is created with its first message:",
        teach="tarry publish orders '{\"order\": 7}' --delay 10s",
    )


def _rates(activity: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: sum(activity[name][-_RECENT:]) / _RECENT
        for name in ("published", "delivered", "acked", "retried", "dead")
    }


def _series(activity: Mapping[str, Any]) -> dict[str, Any]:
    end = milliseconds(activity["at"]) // 1000
    return {"end": end, **{name: activity[name] for name in ("published", "delivered", "acked")}}
