"""The page of nodes: the servers on the database, and their clients."""

from typing import Any

from ..page import Page
from ..tables import Column, Table
from ..visit import Visit
from ..words import bodied, ranges
from .overview import checks

_CLIENTS = 100


async def nodes(visit: Visit) -> Page:
    """The page of all servers, and some of the clients."""
    told: Any = await visit.api.get("/v1/nodes")
    servers = Table(
        name="nodes",
        caption="Servers",
        columns=(
            Column("node", "Server", "name"),
            Column("state", "State", "state"),
            Column("timers", "Timers", "number"),
            Column("hand_behind", "Late by", "duration"),
            Column("shards", "Shards", "parts", wide=True),
            Column("version", "Version", wide=True),
            Column("level", "Schema", wide=True),
            Column("skew", "Clock skew", "duration", wide=True),
            Column("renewed_at", "Last seen", "when", wide=True),
            Column("url", "Address", "address"),
            *((Column("durability", "Warnings", "list"),) if any(one["durability"] for one in told["nodes"]) else ()),
        ),
        rows=[
            {
                **one,
                "shards": ranges(one["shards"]),
                "state": "gone" if not one["alive"] else "leaving" if one["leaving"] else
                ("up, on duty" if one["duties"] else "up"),
            }
            for one in told["nodes"]
        ],
        path="/v1/nodes",
        cli=("tarry", "nodes"),
        stacked=True,
    )  # fmt: skip
    query = {"max": _CLIENTS, "cursor": visit.asked("cursor")}
    found: Any = await visit.api.get("/v1/clients", query)
    clients = Table(
        name="clients",
        caption="Clients",
        columns=(
            Column("client", "Client"),
            Column("state", "State", "state"),
            Column("renewed_at", "Last seen", "time", wide=True),
            Column("holds", "Holds"),
        ),
        rows=[{**one, "state": _ALIVE[one["alive"]], "holds": _holds(one["holds"])} for one in found["clients"]],
        path="/v1/clients",
        query=query,
        cli=("tarry", "clients"),
        empty="No client is connected. To start a consumer in a terminal:",
        teach="tarry consume orders --group billing --from earliest",
        more=found["cursor"],
        stacked=True,
    )
    facts = {"servers": servers, "clients": clients, "checks": await checks(visit), "level": told["level"]}
    return Page("nodes", "Nodes", facts, [servers, clients])


_ALIVE = {True: "alive", False: "dead", None: "not renewing"}


def _holds(holds: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"{one['topic']}/{one['group']} queue {one['queue']}"
        + (f" ({bodied(one['claims'], 'claim', 'claims')})" if one["claims"] else "")
        + (" owner" if one["owner"] else "")
        for one in holds
    )
