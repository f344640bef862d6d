"""The page of a topic's timers: the one waiting message of each key."""

from typing import Any

from ..api import part
from ..page import Page
from ..tables import Column, Table
from ..visit import Visit

_PAGE = 50


async def timers(visit: Visit) -> Page:
    topic = visit.parts["topic"]
    path = f"/v1/topics/{part(topic)}/timers"
    query = {"max": _PAGE, "cursor": visit.asked("cursor")}
    told: Any = await visit.api.get(path, query)
    table = Table(
        name="timers",
        caption="Timers",
        columns=(
            Column("key", "Key", "name", to=f"/ui/schedules?topic={part(topic)}&key={{key}}"),
            Column("state", "State", "state"),
            Column("deliver_at", "Fires", "time"),
            Column("revision", "Revision"),
            Column("id", "Message", "id", to="/ui/messages/{id}"),
        ),
        rows=told["timers"],
        path=path,
        query=query,
        cli=("tarry", "timer", "list", topic),
        empty="This topic has no timers. To set one:",
        teach=f"tarry timer set {topic} order-7 '{{\"order\": 7}}' --delay 30m",
        more=told["cursor"],
        stacked=True,
    )
    return Page("timers", f"Timers of {topic}", {"topic": topic, "table": table}, [table])
