"""The pages of all groups and of one group: its positions, clients and ladder; pause and resume."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..api import part
from ..page import Confirm, Page, Said
from ..pictures.funnel import funnel
from ..tables import Column, Table
from ..visit import Visit
from .settings import group_card

SORTS = ("name", "backlog", "dead_letters")
_PAGE = 50


async def groups(visit: Visit) -> Page:
    sort = visit.asked("sort") or "backlog"
    table = await ranked(visit, sort)
    return Page("groups", "Groups", {"table": table, "sort": sort, "sorts": SORTS}, [table])


async def ranked(visit: Visit, sort: str) -> Table:
    query = {"sort": sort, "max": _PAGE, "cursor": visit.asked("cursor")}
    told: Any = await visit.api.get("/v1/groups", query)
    command = ("tarry", "groups", "--sort", sort)
    return table_of(told["groups"], "/v1/groups", cli=command, query=query, more=told["cursor"])


def table_of(
    found: Sequence[Mapping[str, Any]],
    path: str,
    *,
    cli: Sequence[str],
    topic: str | None = None,
    query: Mapping[str, object] | None = None,
    more: str | None = None,
) -> Table:
    """A table of groups, of one topic or of several."""
    some = topic or "orders"
    return Table(
        name="groups",
        caption="Groups",
        columns=(
            *(() if topic else (Column("topic", "Topic", "name", to="/ui/topics/{topic}"),)),
            Column("group", "Group", "name", to="/ui/groups/{topic}/{group}"),
            Column("state", "State", "state"),
            Column("backlog", "Backlog", "number"),
            Column("claimed", "Claimed", "number"),
            Column("retrying", "Retrying", "number"),
            Column("dead_letters", "Dead letters", "number", to="/ui/dead/{topic}/{group}"),
        ),
        rows=[{**one, "state": "paused" if one["paused"] else "active"} for one in found],
        path=path,
        query=query or {},
        cli=cli,
        empty="There is no group yet. A group is created when a consumer first claims from it:",
        teach=f"tarry consume {some} --group billing --from earliest",
        more=more,
        stacked=True,
    )


async def group(visit: Visit) -> Page:
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
            *({"owner": "", **one, "queue": f"{one['queue']}, retries"} for one in told["retry_queues"]),
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
        empty="No client is consuming for this group now. To start one in a terminal:",
        teach=f"tarry consume {topic} --group {name}",
    )
    facts = {
        "group": told,
        "queues": queues,
        "clients": clients,
        "funnel": funnel(told["retries"], told["ladder"], told["dead_letters"]),
        "resting": sum(told["retries"]),
        "may_operate": visit.visitor.may("operate", topic),
        **group_card(visit, told),
    }
    return Page("group", f"{topic} / {name}", facts, [queues, clients])


async def pause(visit: Visit) -> Said:
    """Pauses the group once confirmed: nothing is handed out to it any more."""
    name = visit.parts["group"]
    if not visit.sent("sure"):
        return Said(
            f"Pause {name}? Its clients receive nothing until it is resumed. Timers and retries keep running.",
            confirm=Confirm(f"Pause {name}"),
        )
    await visit.api.ask("POST", f"{_path(visit)}/pause")
    return Said(f"{name} is paused.")


async def resume(visit: Visit) -> Said:
    await visit.api.ask("POST", f"{_path(visit)}/resume")
    return Said(f"{visit.parts['group']} is resumed.")


def _path(visit: Visit) -> str:
    return f"/v1/topics/{part(visit.parts['topic'])}/groups/{part(visit.parts['group'])}"
