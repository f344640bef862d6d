"""Groups, and one of them: where it stands, who is at work, the ladder; pause and resume."""

from collections.abc import Mapping, Sequence
from typing import Any

import trio

from ..api import part
from ..page import Confirm, Page, Said
from ..pictures.funnel import funnel
from ..tables import Column, Table
from ..visit import Visit

_TOPICS = 20
"""Whose groups are on a page: each topic is a call."""


async def groups(visit: Visit) -> Page:
    """The groups of a page of topics."""
    query = {"max": _TOPICS, "cursor": visit.asked("cursor"), "sort": "backlog"}
    told: Any = await visit.api.get("/v1/topics", query)
    details: dict[str, Any] = {}

    async def look(name: str) -> None:
        details[name] = await visit.api.get(f"/v1/topics/{part(name)}")

    names: list[str] = [one["topic"] for one in told["topics"]]
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(look, name)
    found = [group for name in names for group in details[name]["groups"]]
    table = table_of(found, "/v1/topics", query=query, more=told["cursor"])
    return Page("groups", "Groups", {"table": table}, [table])


def table_of(
    found: Sequence[Mapping[str, Any]],
    path: str,
    *,
    topic: str | None = None,
    query: Mapping[str, object] | None = None,
    more: str | None = None,
) -> Table:
    """Groups, of one topic or of several."""
    some = topic or "orders"
    return Table(
        name="groups",
        caption="Groups",
        columns=(
            *(() if topic else (Column("topic", "Topic", "name", to="topic_href"),)),
            Column("group", "Group", "name", to="href"),
            Column("state", "State", "state"),
            Column("backlog", "Backlog", "number"),
            Column("claimed", "In hand", "number"),
            Column("retrying", "Retrying", "number"),
            Column("dead_letters", "Dead letters", "number", to="dead_href"),
        ),
        rows=[
            {
                **one,
                "state": "paused" if one["paused"] else "open",
                "href": f"/ui/groups/{part(one['topic'])}/{part(one['group'])}",
                "topic_href": f"/ui/topics/{part(one['topic'])}",
                "dead_href": f"/ui/dead/{part(one['topic'])}/{part(one['group'])}" if one["dead_letters"] else "",
            }
            for one in found
        ],
        path=path,
        query=query or {},
        cli=("tarry", "groups", topic) if topic else (),
        empty="There is no group yet. A group comes into being with its first claim:",
        teach=f"tarry consume {some} --group billing",
        more=more,
        stacked=True,
    )


async def group(visit: Visit) -> Page:
    """Where a group stands."""
    topic, name = visit.parts["topic"], visit.parts["group"]
    path = _path(visit)
    told: Any = await visit.api.get(path)
    queues = Table(
        name="queues",
        caption="Queues",
        columns=(
            Column("queue", "Queue"),
            Column("offset", "Next offset", "number"),
            Column("end", "End", "number"),
            Column("lag", "Lag", "number"),
            *((Column("owner", "Owner", "name", wide=True),) if any("owner" in one for one in told["queues"]) else ()),
        ),
        rows=[
            *({"owner": "", **one} for one in told["queues"]),
            *({"owner": "", **one, "queue": f"retries of {one['queue']}"} for one in told["retry_queues"]),
        ],
        path=path,
        cli=("tarry", "groups", topic),
    )
    clients = Table(
        name="clients",
        caption="Clients",
        columns=(Column("client", "Client", "name"),),
        rows=[{"client": one} for one in told["clients"]],
        path="/v1/clients",
        cli=("tarry", "clients"),
        empty="Nobody claims for this group now. A consumer on a terminal:",
        teach=f"tarry consume {topic} --group {name}",
    )
    facts = {
        "group": told,
        "queues": queues,
        "clients": clients,
        "funnel": funnel(told["retries"], told["ladder"], told["dead_letters"]),
        "resting": sum(told["retries"]),
        "may_operate": visit.visitor.may("operate", topic),
    }
    return Page("group", f"{topic} / {name}", facts, [queues, clients])


async def pause(visit: Visit) -> Said:
    """Nothing is handed out to the group any more."""
    name = visit.parts["group"]
    if not visit.sent("sure"):
        return Said(
            f"Pause {name}? Its clients are given nothing until it is resumed; timers and retries go on.",
            confirm=Confirm(f"Pause {name}"),
        )
    await visit.api.ask("POST", f"{_path(visit)}/pause")
    return Said(f"{name} is paused.")


async def resume(visit: Visit) -> Said:
    """It goes on."""
    await visit.api.ask("POST", f"{_path(visit)}/resume")
    return Said(f"{visit.parts['group']} goes on.")


def _path(visit: Visit) -> str:
    return f"/v1/topics/{part(visit.parts['topic'])}/groups/{part(visit.parts['group'])}"
