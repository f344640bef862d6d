"""The pages that find messages by topic, key, id, time and state, and show one with its life: cancel, move, publish
again."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...http.requests import Message
from ..api import part
from ..page import Confirm, Elsewhere, Page, Said
from ..pictures.lifeline import lifeline
from ..tables import Column, Table
from ..visit import Visit
from ..words import utc

STATES = ("scheduled", "published", "claimed", "retrying", "parked", "dead", "cancelled", "suppressed")
_PAGE = 50
_COPIED = {*Message.__struct_fields__} - {"deliver_at", "expires_at", "queue", "guard"}
"""Fields that are copied when a message is published again."""
_SHOWN = 120
"""Characters of a body that a table shows."""


async def messages(visit: Visit) -> Page | Elsewhere:
    if id_ := visit.asked("id"):
        return Elsewhere(f"/ui/messages/{part(id_)}")
    asked = visit.query("topic", "key", "state", "from", "to", "cursor")
    facts: dict[str, Any] = {"asked": asked, "states": STATES, "table": None, "topics": await topic_names(visit)}
    if "topic" not in asked:
        return Page("messages", "Messages", facts)
    query = {**asked, "max": _PAGE}
    told: Any = await visit.api.get("/v1/messages", query)
    table = found_table(told, query)
    facts |= {"table": table, "all": "key" not in asked and "state" not in asked, "short": len(table.rows) < _PAGE}
    return Page("messages", "Messages", facts, [table])


async def topic_names(visit: Visit) -> list[str]:
    """Names of topics to choose from, as far as the visitor may list them."""
    told: Any = await visit.api.try_get("/v1/topics", {"max": 200})
    return [] if told is None else [one["topic"] for one in told["topics"]]


def found_table(told: Mapping[str, Any], query: Mapping[str, object]) -> Table:
    topic = str(query.get("topic") or "orders")
    return Table(
        name="messages",
        caption="Messages",
        columns=(
            Column("id", "Message", "id", to="/ui/messages/{id}"),
            Column("state", "State", "state"),
            Column("key", "Key", "name"),
            Column("deliver_at", "Due", "time"),
            Column("published_at", "Published", "time", wide=True),
            Column("body", "Body", "code", wide=True),
        ),
        rows=[{**one, "body": body_text(one)[:_SHOWN], "state": state_of(one)} for one in told["messages"]],
        path="/v1/messages",
        query=query,
        cli=("tarry", "find", topic, *flags(query, ("key", "state", "from", "to"))),
        empty="No message matches. To publish one that waits:",
        teach=f"tarry publish {topic} '{{\"order\": 7}}' --delay 10m --key order-7",
        more=told["cursor"],
        stacked=True,
    )


def flags(query: Mapping[str, object], names: Sequence[str]) -> list[str]:
    """These parameters as flags of the command line."""
    return [word for name in names if query.get(name) for word in (f"--{name}", str(query[name]))]


def state_of(one: Mapping[str, Any]) -> str:
    """The state to show: that of the message while it waits or if it has ended, else its last event."""
    life = one["life"]
    return str(one["state"]) if one["state"] != "published" or not life else str(life[-1]["what"])


def body_text(one: Mapping[str, Any]) -> str:
    """The body as text, for showing."""
    if "erased_at" in one:
        return "(erased)"
    if "body" in one:
        return msgspec.json.format(bytes(one["body"]), indent=-1).decode()
    return f"({one['content_type']}) {one['body_base64']}" if "body_base64" in one else "(none)"


async def message(visit: Visit) -> Page:
    id_ = visit.parts["id"]
    path = f"/v1/messages/{part(id_)}"
    told: Any = await visit.api.get(path)
    topic = told["topic"]
    waits = told["state"] == "scheduled"
    ahead = [{"what": "due", "at": told["deliver_at"]}] if waits else []
    facts = {
        "message": told,
        "state": state_of(told),
        "steps": lifeline([*told["life"], *ahead]),
        "body": _pretty(told),
        "source": Table("message", "Message", (), (), path, cli=("tarry", "show", id_)),
        "waits": waits,
        "may_publish": visit.visitor.may("publish", topic),
        "publishable": "body" in told or "body_base64" in told,
    }
    return Page("message", f"Message {id_}", facts)


def _pretty(one: Mapping[str, Any]) -> str:
    if "body" in one:
        return msgspec.json.format(bytes(one["body"]), indent=2).decode()
    return body_text(one)


async def cancel(visit: Visit) -> Said:
    id_ = visit.parts["id"]
    if not visit.sent("sure"):
        return Said("Cancel this message? It will not be delivered.", confirm=Confirm("Cancel the message"))
    await visit.api.ask("DELETE", f"/v1/messages/{part(id_)}")
    return Said("Cancelled: it will not be delivered.")


async def move(visit: Visit) -> Said:
    when = visit.sent("when")
    if not when:
        return Said("Enter a duration such as 10m, or a time such as 2030-01-31T09:00:00Z.", good=False)
    told = (await visit.api.ask("PATCH", f"/v1/messages/{part(visit.parts['id'])}", _when(when))).json()
    return Said(f"Moved: it is due at {told['deliver_at']}.")


async def again(visit: Visit) -> Said:
    """Publishes the same content as a new message, once confirmed."""
    path = f"/v1/messages/{part(visit.parts['id'])}"
    told: Any = await visit.api.get(path)
    if not visit.sent("sure"):
        when = f" in {visit.sent('when')}" if visit.sent("when") else " now"
        fields = (("when", visit.sent("when")),)
        return Said(
            f"Publish a new message with the same content to {told['topic']}{when}?", confirm=Confirm("Publish", fields)
        )
    raw = msgspec.json.decode((await visit.api.ask("GET", path)).body, type=dict[str, msgspec.Raw])
    copy: dict[str, Any] = {name: raw[name] for name in _COPIED if name in raw}
    if when := visit.sent("when"):
        copy |= _when(when)
    receipt = (await visit.api.ask("POST", f"/v1/topics/{part(told['topic'])}/messages", copy)).json()
    return Said(f"{receipt['state'].capitalize()}:", link=(f"/ui/messages/{receipt['id']}", receipt["id"]))


def _when(text: str) -> dict[str, str]:
    """The text as a delay or a time: a time begins with a date. A time without a zone is UTC."""
    if not (text[:4].isdigit() and "-" in text):
        return {"delay": text}
    return {"deliver_at": utc(text.replace(" ", "T", 1))}
