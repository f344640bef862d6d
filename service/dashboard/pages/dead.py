"""The pages of dead letters: groups that have some, and the letters of a group with their reasons; redrive and purge.

Redrive and purge work on selected letters, on all that match a search, or on those of a reason, key, tag or time.
"""

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
"""Letters in a call that looks up those that match a search."""
_MOST = 10_000
"""The most ids in one call of the API."""
_FILTERS = ("key", "reason", "from", "to")
_OF = ("reason", "key", "tag", "from", "to")
"""Fields by which letters are chosen without looking each of them up."""
_REASON = 200
"""Characters of a reason that are shown."""


async def dead(visit: Visit) -> Page:
    """The page of groups that have dead letters, those with most first."""
    whole = await ranked(visit, "dead_letters")
    table = Table(
        name="dead",
        caption="Groups with dead letters",
        columns=(
            Column("topic", "Topic", "name", to="/ui/topics/{topic}"),
            Column("group", "Group", "name", to="/ui/dead/{topic}/{group}"),
            Column("dead_letters", "Dead letters", "number", to="/ui/dead/{topic}/{group}"),
            Column("dead", "Died in total", "number"),
            Column("retrying", "Retrying", "number"),
        ),
        rows=[row for row in whole.rows if row["dead_letters"]],
        path=whole.path,
        query=whole.query,
        cli=whole.cli,
        empty="There are no dead letters. A message becomes one when its last attempt has failed. To list them:",
        teach="tarry dead list orders --group billing",
        more=whole.more if whole.rows and whole.rows[-1]["dead_letters"] else None,
        stacked=True,
    )
    return Page("dead", "Dead letters", {"table": table}, [table])


async def letters(visit: Visit) -> Page:
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
            Column("id", "Message", "id", to="/ui/messages/{id}"),
            Column("dead_at", "Died", "time"),
            Column("key", "Key", "name"),
            Column("tries", "Tries", "number"),
            Column("reason", "Last reason"),
            Column("body", "Body", "code", wide=True),
        ),
        rows=[
            {**one, "tries": len(one["attempts"]), "reason": reason_of(one), "body": body_text(one)[:_REASON]}
            for one in found
        ],
        path=path,
        query=query,
        cli=("tarry", "dead", "list", topic, "--group", group, *flags(asked, _FILTERS)),
        empty="No dead letter matches." if asked else "This group has no dead letters. To list them in a terminal:",
        teach=f"tarry dead list {topic} --group {group}",
        more=told["cursor"],
        select="id",
        stacked=True,
    )
    facts = {
        "table": table,
        "asked": asked,
        "reasons": Counter(reason_of(one) for one in found).most_common(8),
        "exactly": sorted({pattern_of(one) for one in found} - {""}),
        "total": state["dead_letters"],
        "topic": topic,
        "group": group,
        "may_operate": visit.visitor.may("operate", topic),
    }
    return Page("letters", f"Dead letters of {topic} / {group}", facts, [table])


def reason_of(letter: Mapping[str, Any]) -> str:
    attempts = letter["attempts"]
    return str((attempts[-1]["reason"] or "no reason given") if attempts else "no attempt")[:_REASON]


def pattern_of(letter: Mapping[str, Any]) -> str:
    """The last attempt's reason, or its beginning with a star, as the API takes it; empty if there is none."""
    reason = str((letter["attempts"][-1]["reason"] or "") if letter["attempts"] else "")
    return reason if len(reason) <= _REASON and not reason.endswith("*") else reason[:_REASON] + "*"


async def redrive(visit: Visit) -> Said:
    return await _worked(visit, "redrive", "redriven", "Redrive")


async def purge(visit: Visit) -> Said:
    return await _worked(visit, "purge", "purged", "Purge")


async def _worked(visit: Visit, verb: str, done: str, label: str) -> Said:
    """Tells first what would be done, and does it once confirmed."""
    path = _path(visit)
    asked, cut = await _asked(visit)
    if not asked and visit.sent("scope") == "of":
        return Said("Enter a reason, a key, a tag or a time.", good=False)
    if asked.get("ids") == []:
        ticked = visit.sent("scope") != "all"
        return Said("Tick a dead letter first." if ticked else "No dead letter matches the search.", good=False)
    sure = bool(visit.sent("sure"))
    told = (await visit.api.ask("POST", f"{path}/{verb}", {**asked, "dry_run": not sure})).json()
    many = told[done]
    count = bodied(many, "dead letter", "dead letters")
    left = f" {bodied(told['expired'], 'has', 'have')} expired and will stay." if told.get("expired") else ""
    if told.get("astray"):
        left += f" {bodied(told['astray'], 'has', 'have')} no queue to go back to and will stay."
    more = " There are more: repeat this for the rest." if told["more"] or cut else ""
    if sure:
        return Said(f"{count} {done}.{left}{more}")
    if not many:
        return Said(f"Nothing would be {done}: no dead letter matches.{left}", good=False)
    fate = "go back to the group and start again with attempt 1" if verb == "redrive" else "be deleted for good"
    fields = [(name, value) for name, values in visit.form.items() for value in values if name != "sure"]
    if "ids" not in asked:  # exclude letters that die meanwhile, which were not counted
        fields = [(name, value) for name, value in fields if name != "to"] + [("to", told["to"])]
    return Said(f"{count} would {fate}.{left}{more}", confirm=Confirm(f"{label} {many:,}", fields))


async def _asked(visit: Visit) -> tuple[dict[str, Any], bool]:
    """The letters for the call: the ticked ones, those of a reason, key, tag or time, or all that match the search; and
    whether there are more than one call takes."""
    if visit.sent("scope") == "of":
        return dict(visit.fields(*_OF)), False
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
