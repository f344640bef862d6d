"""Dead letters: which groups have some, why; redrive and purge, of a selection or of all that fit."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..api import part
from ..page import Confirm, Page, Said
from ..tables import Column, Table
from ..visit import Visit
from ..words import bodied
from .groups import ranked
from .messages import body_text, flags

_PAGE = 50
_READ = 1000
"""Letters in a call, where those are looked up that fit a search."""
_MOST = 10_000
"""Ids in one call of the API."""
_FILTERS = ("key", "reason", "from", "to")
_REASON = 200
"""Characters of a reason."""


async def dead(visit: Visit) -> Page:
    """Groups that have dead letters, those first that have most."""
    whole = await ranked(visit, "dead_letters")
    table = Table(
        name="dead",
        caption="Groups with dead letters",
        columns=(
            Column("topic", "Topic", "name", to="topic_href"),
            Column("group", "Group", "name", to="dead_href"),
            Column("dead_letters", "Dead letters", "number", to="dead_href"),
            Column("dead", "Died in all", "number"),
            Column("retrying", "Retrying", "number"),
        ),
        rows=[row for row in whole.rows if row["dead_letters"]],
        path=whole.path,
        query=whole.query,
        cli=whole.cli,
        empty="There are no dead letters here. A message is dead after the last rung of its ladder; to look closer:",
        teach="tarry dead list orders --group billing",
        more=whole.more if whole.rows and whole.rows[-1]["dead_letters"] else None,
        stacked=True,
    )
    return Page("dead", "Dead letters", {"table": table}, [table])


async def letters(visit: Visit) -> Page:
    """The dead letters of a group."""
    topic, group = visit.parts["topic"], visit.parts["group"]
    path = _path(visit)
    asked = visit.query(*_FILTERS, "cursor")
    query = {**asked, "max": _PAGE}
    told: Any = await visit.api.get(path, query)
    found: Sequence[Mapping[str, Any]] = told["messages"]
    state: Any = await visit.api.get(path.removesuffix("/dead"))
    table = Table(
        name="letters",
        caption="Dead letters",
        columns=(
            Column("id", "Message", "id", to="href"),
            Column("dead_at", "Died", "time"),
            Column("key", "Key", "name"),
            Column("tries", "Tries", "number"),
            Column("reason", "Last reason"),
            Column("body", "Body", "code", wide=True),
        ),
        rows=[
            {
                **one,
                "href": f"/ui/messages/{one['id']}",
                "tries": len(one["attempts"]),
                "reason": reason_of(one),
                "body": body_text(one)[:_REASON],
            }
            for one in found
        ],
        path=path,
        query=query,
        cli=("tarry", "dead", "list", topic, "--group", group, *flags(asked, _FILTERS)),
        empty="No dead letter fits." if asked else "This group has no dead letters. What it fails is seen here:",
        teach=f"tarry dead list {topic} --group {group}",
        more=told["cursor"],
        select="id",
        stacked=True,
    )
    facts = {
        "table": table,
        "asked": asked,
        "reasons": Counter(reason_of(one) for one in found).most_common(8),
        "total": state["dead_letters"],
        "topic": topic,
        "group": group,
        "may_operate": visit.visitor.may("operate", topic),
    }
    return Page("letters", f"Dead letters of {topic} / {group}", facts, [table])


def reason_of(letter: Mapping[str, Any]) -> str:
    """Why the last attempt failed."""
    attempts = letter["attempts"]
    return str((attempts[-1]["reason"] or "no reason given") if attempts else "no attempt")[:_REASON]


async def redrive(visit: Visit) -> Said:
    """Back to the group."""
    return await _worked(visit, "redrive", "redriven", "Redrive")


async def purge(visit: Visit) -> Said:
    """Away for good."""
    return await _worked(visit, "purge", "purged", "Purge")


async def _worked(visit: Visit, verb: str, done: str, label: str) -> Said:
    """First what would be done, and on the second word it is."""
    path = _path(visit)
    asked, cut = await _asked(visit)
    if asked.get("ids") == []:
        return Said("No dead letter is ticked, or fits.", good=False)
    sure = bool(visit.sent("sure"))
    told = (await visit.api.ask("POST", f"{path}/{verb}", {**asked, "dry_run": not sure})).json()
    many = told[done]
    count = bodied(many, "dead letter", "dead letters")
    left = f"; {bodied(told['expired'], 'is', 'are')} past their time and stay" if told.get("expired") else ""
    if told.get("astray"):
        left += f"; {bodied(told['astray'], 'has', 'have')} no place to go back to and stay"
    more = " There are more: say it again for the rest." if told["more"] or cut else ""
    if sure:
        return Said(f"{count} {done}{left}.{more}")
    if not many:
        return Said(f"Nothing would be {done}{left}.", good=False)
    fate = "go back to their group and begin with the first attempt" if verb == "redrive" else "would be gone for good"
    fields = [(name, value) for name, values in visit.form.items() for value in values if name != "sure"]
    return Said(f"{count} {fate}{left}.{more}", confirm=Confirm(f"{label} {many:,}", fields))


async def _asked(visit: Visit) -> tuple[dict[str, Any], bool]:
    """What the call is about: those that are ticked, or all that fit the search; and whether these are not all."""
    if visit.sent("scope") != "all":
        return {"ids": list(visit.form.get("id", ()))}, False
    times = visit.fields("from", "to")
    search = visit.fields("key", "reason")
    if not search:
        return dict(times), False
    ids: list[str] = []
    cursor: str | None = ""
    while cursor is not None and len(ids) < _MOST:
        page: Any = await visit.api.get(_path(visit), {**search, **times, "max": _READ, "cursor": cursor})
        ids += [one["id"] for one in page["messages"]]
        cursor = page["cursor"]
    return {"ids": ids[:_MOST]}, cursor is not None


def _path(visit: Visit) -> str:
    return f"/v1/topics/{part(visit.parts['topic'])}/groups/{part(visit.parts['group'])}/dead"
