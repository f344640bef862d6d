"""Topics, and one of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..api import part
from ..page import Page
from ..tables import Column, Table
from ..visit import Visit
from .groups import table_of as groups_table
from .overview import falling_due

SORTS = ("name", "rate", "backlog")
_PAGE = 50


async def topics(visit: Visit) -> Page:
    """A page of topics."""
    sort = visit.asked("sort") or "name"
    query = {"sort": sort, "max": _PAGE, "cursor": visit.asked("cursor")}
    told: Any = await visit.api.get("/v1/topics", query)
    table = Table(
        name="topics",
        caption="Topics",
        columns=(
            Column("topic", "Topic", "name", to="href"),
            Column("kind", "Kind", wide=True),
            Column("queues", "Queues", "number", wide=True),
            Column("published_rate", "In /s", "rate"),
            Column("delivered_rate", "Out /s", "rate"),
            Column("pending", "Waiting", "number"),
            Column("backlog", "Backlog", "number"),
            Column("accepted", "Accepted", "number", wide=True),
            Column("cancelled", "Cancelled", "number", wide=True),
        ),
        rows=[
            {**one, "kind": "ordered" if one["ordered"] else one["kind"], "href": f"/ui/topics/{part(one['topic'])}"}
            for one in told["topics"]
        ],
        path="/v1/topics",
        query=query,
        cli=("tarry", "topics", "--sort", sort),
        empty="There is no topic yet. A topic comes into being with its first message:",
        teach="tarry publish orders '{\"order\": 7}' --delay 10s",
        more=told["cursor"],
    )
    return Page("topics", "Topics", {"table": table, "sort": sort, "sorts": SORTS}, [table])


async def topic(visit: Visit) -> Page:
    """One topic, its groups, and what falls due."""
    name = visit.parts["topic"]
    path = f"/v1/topics/{part(name)}"
    told: Any = await visit.api.get(path)
    table = groups_table(told["groups"], path, topic=name)
    facts = {
        "topic": told,
        "counts": _counts(told),
        "settings": _settings(told),
        "table": table,
        "may_operate": visit.visitor.may("operate", name),
    }
    return Page("topic", name, facts, [table])


async def topic_pictures(visit: Visit) -> Page:
    """What of a topic falls due when."""
    due = await falling_due(visit, f"/v1/topics/{part(visit.parts['topic'])}/upcoming")
    return Page("pictures", "Pictures", {"ring": None, "heat": None, "due": due})


def _counts(told: Mapping[str, Any]) -> Sequence[tuple[str, int, str]]:
    """What the topic has had, as the equation that they keep; and which messages that are, if they can be shown."""
    states = {"pending": "scheduled", "streamed": "published", "cancelled": "cancelled", "suppressed": "suppressed"}
    names = ("accepted", "streamed", "pending", "cancelled", "replaced", "suppressed", "expired")
    return [(name, told[name], states.get(name, "")) for name in names if name in told]


def _settings(told: Mapping[str, Any]) -> Sequence[tuple[str, str, Any]]:
    ladder = told["ladder"]
    return [
        ("Kind", "text", "ordered" if told["ordered"] else told["kind"]),
        ("Queues", "number", told["queues"]),
        ("Retention", "duration", told["retention"]),
        ("Ladder", "text", "the server's" if ladder is None else f"{len(ladder)} rungs of its own"),
        ("Sequencer", "text", told["sequencer"]),
        ("Waiting at most", "number", told["max_pending"]),
        ("In /s at most", "number", told["max_rate"]),
        ("Released /s at most", "number", told["release_rate"]),
        ("Held back by that", "number", told["held_back"]),
        ("Made", "time", told["created_at"]),
    ]
