"""The pages of all topics, and of one topic."""

from typing import Any

from ..api import part
from ..page import Elsewhere, Page
from ..tables import Column, Table
from ..visit import Visit
from .groups import table_of as groups_table
from .overview import falling_due
from .settings import new_group_form, new_topic_form, topic_card

SORTS = ("name", "rate", "backlog")
_PAGE = 50


async def topics(visit: Visit) -> Page | Elsewhere:
    """The page of topics; a name in the query leads to the page of that topic."""
    if name := visit.asked("topic"):
        return Elsewhere(f"/ui/topics/{part(name)}")
    sort = visit.asked("sort") or "name"
    facts: dict[str, Any] = {"sort": sort, "sorts": SORTS}
    facts["new_topic"] = new_topic_form().fresh() if visit.visitor.scopes.have("operate") else None
    query = {"sort": sort, "max": _PAGE, "cursor": visit.asked("cursor")}
    told: Any = await visit.api.try_get("/v1/topics", query)
    if told is None:
        return Page("topics", "Topics", {"table": None, **facts})
    table = Table(
        name="topics",
        caption="Topics",
        columns=(
            Column("topic", "Topic", "name", to="/ui/topics/{topic}"),
            Column("kind", "Kind", wide=True),
            Column("queues", "Queues", "number", wide=True),
            Column("published_rate", "In /s", "rate"),
            Column("delivered_rate", "Out /s", "rate"),
            Column("pending", "Waiting", "number"),
            Column("backlog", "Backlog", "number"),
            Column("accepted", "Accepted", "number", wide=True),
            Column("cancelled", "Cancelled", "number", wide=True),
        ),
        rows=[{**one, "kind": "ordered" if one["ordered"] else one["kind"]} for one in told["topics"]],
        path="/v1/topics",
        query=query,
        cli=("tarry", "topics", "--sort", sort),
        empty="There is no topic yet. A topic is created with its first message:",
        teach="tarry publish orders '{\"order\": 7}' --delay 10s",
        more=told["cursor"],
    )
    return Page("topics", "Topics", {"table": table, **facts}, [table])


async def topic(visit: Visit) -> Page:
    name = visit.parts["topic"]
    path = f"/v1/topics/{part(name)}"
    told: Any = await visit.api.get(path)
    table = groups_table(told["groups"], path, topic=name, cli=("tarry", "groups", name))
    facts = {
        "topic": told,
        "table": table,
        "new_group": new_group_form(name).fresh() if visit.visitor.may("operate", name) else None,
        **topic_card(visit, told),
    }
    return Page("topic", name, facts, [table])


async def topic_pictures(visit: Visit) -> Page:
    due = await falling_due(visit, f"/v1/topics/{part(visit.parts['topic'])}/upcoming")
    return Page("pictures", "Pictures", {"ring": None, "heat": None, "due": due})
