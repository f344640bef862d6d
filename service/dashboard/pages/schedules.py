"""The pages of schedules: their next and past fire times; pause, resume, run and backfill; also finds a timer by
key."""

from collections.abc import Mapping
from typing import Any

from ..api import Refused, part
from ..page import Confirm, Elsewhere, Page, Said
from ..tables import Column, Table
from ..visit import Visit
from ..words import bodied, duration
from .messages import body_text, topic_names

_PAGE = 50
_TIMES = 10


async def schedules(visit: Visit) -> Page | Elsewhere:
    """The page of schedules, with a search for a timer by its key; a topic without a key leads to the topic's
    timers."""
    if (topic := visit.asked("topic")) and not visit.asked("key"):
        return Elsewhere(f"/ui/topics/{part(topic)}/timers")
    query = {"max": _PAGE, "cursor": visit.asked("cursor")}
    told: Any = await visit.api.get("/v1/schedules", query)
    table = Table(
        name="schedules",
        caption="Schedules",
        columns=(
            Column("name", "Schedule", "name", to="/ui/schedules/{name}"),
            Column("state", "State", "state"),
            Column("topic", "Topic", "name", to="/ui/topics/{topic}"),
            Column("when", "When", "line"),
            Column("next_at", "Next", "time"),
        ),
        rows=[
            {
                "name": one["name"],
                "state": "paused" if one["paused"] else "active",
                "topic": one["spec"]["topic"],
                "when": when(one["spec"]),
                "next_at": next(iter(one["next"]), ""),
            }
            for one in told["schedules"]
        ],
        path="/v1/schedules",
        query=query,
        cli=("tarry", "schedule", "list"),
        empty="There is no schedule yet. To send a message each day at nine:",
        teach='tarry schedule put daily \'{"report": true}\' --topic orders --cron "0 9 * * *"',
        more=told["cursor"],
        stacked=True,
    )
    facts: dict[str, Any] = {
        "table": table,
        "asked": visit.query("topic", "key"),
        "timer": None,
        "topics": await topic_names(visit),
    }
    if visit.asked("topic") and visit.asked("key"):
        facts |= await _timer(visit, visit.asked("topic"), visit.asked("key"))
    return Page("schedules", "Timers and schedules", facts, [table])


async def _timer(visit: Visit, topic: str, key: str) -> dict[str, Any]:
    try:
        return {"timer": await visit.api.get(f"/v1/topics/{part(topic)}/timers/{part(key)}")}
    except Refused as error:
        if error.status != 404:
            raise
        return {"no_timer": error.detail}


def when(spec: Mapping[str, Any]) -> str:
    """When a schedule fires, in words."""
    if spec.get("cron"):
        return f"{spec['cron']} {spec.get('timezone') or 'UTC'}"
    every = spec.get("every")
    return f"every {duration(every)}" if isinstance(every, int) else f"every {every}"


async def schedule(visit: Visit) -> Page:
    path = _path(visit)
    told: Any = await visit.api.get(path)
    times: Any = await visit.api.get(f"{path}/next", {"count": _TIMES})
    query = {"max": _PAGE, "cursor": visit.asked("cursor")}
    past: Any = await visit.api.get(f"{path}/fires", query)
    missed = any("missed_until" in one for one in past["fires"])
    table = Table(
        name="fires",
        caption="Past fire times",
        columns=(
            Column("fire_at", "Fire time", "time"),
            Column("what", "Result", "state"),
            Column("at", "At", "time"),
            Column("id", "Message", "id", to="/ui/messages/{id}"),
            *((Column("missed_until", "Missed until", "time"),) if missed else ()),
        ),
        rows=[{"id": "", "missed_until": None, **one} for one in past["fires"]],
        path=f"{path}/fires",
        query=query,
        empty="It has not fired yet. To send its message now:",
        teach=f"tarry schedule run {visit.parts['name']}",
        more=past["cursor"],
        stacked=True,
    )
    spec = told["spec"]
    facts = {
        "schedule": told,
        "when": when(spec),
        "body": body_text(spec),
        "times": times["times"],
        "table": table,
        "may_operate": visit.visitor.may("operate", spec["topic"]),
    }
    return Page("schedule", told["name"], facts, [table])


async def pause(visit: Visit) -> Said:
    """Pauses the schedule once confirmed."""
    name = visit.parts["name"]
    if not visit.sent("sure"):
        return Said(f"Pause {name}? It sends nothing until it is resumed.", confirm=Confirm(f"Pause {name}"))
    await visit.api.ask("POST", f"{_path(visit)}/pause")
    return Said(f"{name} is paused.")


async def resume(visit: Visit) -> Said:
    await visit.api.ask("POST", f"{_path(visit)}/resume")
    return Said(f"{visit.parts['name']} is resumed. It fires at its next time.")


async def run(visit: Visit) -> Said:
    if not visit.sent("sure"):
        return Said("Send its message now?", confirm=Confirm("Send it"))
    sent = (await visit.api.ask("POST", f"{_path(visit)}/run")).json()
    return Said("Sent:", link=(f"/ui/messages/{sent['id']}", sent["id"]))


async def backfill(visit: Visit) -> Said:
    """Sends the messages of past fire times that were not sent, once confirmed."""
    times = visit.fields("from", "to")
    since, until = times.get("from", ""), times.get("to", "")
    if not (since and until):
        return Said("Enter both times.", good=False)
    sure = bool(visit.sent("sure"))
    body = {"from": since, "to": until, "dry_run": not sure}
    told = (await visit.api.ask("POST", f"{_path(visit)}/backfill", body)).json()
    found = bodied(told["times"], "fire time is", "fire times are")
    if sure:
        return Said(f"{found} in this range. {bodied(told['sent'], 'message was', 'messages were')} sent.")
    if not told["times"]:
        return Said("There is no fire time in this range.", good=False)
    if not told["sent"]:
        return Said(f"{found} in this range. All their messages have been sent.")
    return Said(
        f"{found} in this range. {bodied(told['sent'], 'message', 'messages')} would be sent.",
        confirm=Confirm("Send the missing messages", (("from", since), ("to", until))),
    )


def _path(visit: Visit) -> str:
    return f"/v1/schedules/{part(visit.parts['name'])}"
