"""The commands `seek`, `erase`, `clients`, `nodes` and `guards`, for operators."""

import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from ...client import Conflict, Erased, NotFound, Tarry
from ...store.printable import visible
from ..dashboard.words import ranges
from ..durations import parse_time
from .flags import whole
from .options import DryRun, Group, MessageId, Topic, Yes
from .printing import NotThere, UsageError, note
from .rendering import time_text
from .server import HERE, Server

_NOT_NOW = 4
"""The exit code if it is too late, or too early."""


def erase(
    id: MessageId | None = None,  # noqa: A002 - the contract's word
    /,
    *,
    topic: Annotated[str | None, Parameter(help="Of --key.")] = None,
    key: Annotated[str | None, Parameter(help="All messages of this key, of --topic.")] = None,
    yes: Yes = False,
    server: Server = HERE,
) -> int:
    """Erase the content of a message, or of all of a key.

    In the store and in the lake: body, headers and the reasons of failed attempts are removed for good; its life
    stays. The lake follows with the next run of the archive. A key finds only messages that the store still has:
    erase one that only the lake has by its id. Exit code 4 while it waits: cancel it first; 3 when there is none.
    """
    if (id is None) == (key is None) or (topic is None) != (key is None):
        raise UsageError("erase takes the ID of a message, or --topic and --key")
    if id is not None:
        confirm(f"erase message {id} for good", yes=yes, instead="")
    with server.client() as tarry:
        ids = [id] if id is not None else _of_key(tarry, topic or "", key or "", yes=yes)
        records, code = list[dict[str, Any]](), 0
        try:
            for one in ids:
                try:
                    records.append(_erased(tarry.erase(one)))
                except Conflict as error:
                    note(f"tarry: message {one}: {error}")
                    code = _NOT_NOW
                except NotFound:
                    if id is not None:
                        raise  # a message of the key that retention has removed meanwhile
        finally:  # show what was done, however it ends
            if records:
                server.show(records, ("id", "erased at", "lake", "lake at"), [tuple(one.values()) for one in records])
            if len(records) < len(ids) and key is not None:
                note(f"{len(records)} of {len(ids)} messages were erased")
    return code


def _erased(done: Erased) -> dict[str, Any]:
    lake_at = None if done.lake_at is None else time_text(done.lake_at)
    return {"id": done.id, "erased_at": time_text(done.erased_at), "lake": done.lake, "lake_at": lake_at}


def _of_key(tarry: Tarry, topic: str, key: str, *, yes: bool) -> list[str]:
    """Ids of the key's messages that wait or are in the stream, and of dead letters that are not in the stream any
    more."""
    ids = dict.fromkeys(str(one["id"]) for one in tarry.find(topic, key=key))
    for group in tarry.topic(topic)["groups"]:
        ids |= dict.fromkeys(letter.message.id for letter in tarry.dead_letters(topic, group["group"], key=key))
    if not ids:
        raise NotThere(f"topic {topic} has no message of key {key}")
    confirm(f"erase {len(ids)} messages of key {key} for good", yes=yes, instead="")
    return list(ids)


def seek(
    topic: Topic,
    /,
    *,
    group: Group,
    to: Annotated[str, Parameter(help="earliest, latest, a time, or an offset.")],
    queue: Annotated[int | None, whole("Of an offset or a time: this queue only.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = HERE,
) -> int:
    """Move a consumer group to another position.

    Its open claims are closed first; other groups are not affected.
    """
    if queue is not None and to in ("earliest", "latest"):
        raise UsageError(f"--queue goes with an offset or a time; --to {to} moves all queues")
    place = _place(to)
    with server.client() as tarry:
        before = {q["queue"]: q["offset"] for q in tarry.group(topic, group)["queues"]}
        if not dry_run:
            confirm(f"move group {group} of topic {topic} to {to}, and close its open claims", yes=yes)
        after = tarry.seek(topic, group, place, queue=queue, dry_run=dry_run)
    records = [
        {"queue": number, "offset": offset, "before": before.get(number), "dry_run": dry_run}
        for number, offset in after.items()
    ]
    rows = [(r["queue"], r["before"], r["offset"]) for r in records]
    remark = "nothing was moved: --dry-run" if dry_run else ""
    return server.show(records, (">queue", ">before", ">after"), rows, remark)


def _place(to: str) -> str | int:
    if to.isascii() and to.isdecimal():
        return int(to)
    if to not in ("earliest", "latest"):
        try:
            parse_time(to)
        except ValueError as error:
            raise UsageError(f"--to takes earliest, latest, an offset or a time; {error}") from None
    return to


_ALIVE = {True: "yes", False: "no", None: ""}


def nodes(*, server: Server = HERE) -> int:
    """List the servers on the same database.

    The one with the duties (*) does what one server does for all, such as cleaning up.
    """
    with server.client() as tarry:
        found = tarry.nodes()
    shown: list[dict[str, Any]] = [
        one | {"duties": "*" * one["duties"], "alive": _ALIVE[one["alive"]]} for one in found
    ]
    fields = ("slot", "node", "duties", "alive", "version", "level", "started_at", "renewed_at", "timers")
    rows = [
        (*(one[field] for field in fields), ranges(one["shards"], " "), one["hand_behind"], one["url"]) for one in shown
    ]
    columns = (">slot", "node", "duties", "alive", "version", ">level", "started", "renewed", ">timers", "shards")
    return server.show(found, (*columns, ">behind ms", "url"), rows)


def guards(*, server: Server = HERE) -> int:
    """List the guards that the server declares.

    Undeclared ones that messages name are listed, too; each with how many due messages wait for its answer there,
    and why it holds them.
    """
    with server.client() as tarry:
        found = tarry.guards()
    fields = ("guard", "table", "key_column", "condition", "waiting", "holds", "dsn")
    rows = [tuple(one[field] for field in fields) for one in found]
    columns = ("guard", "table", "key column", "condition", ">waiting", "holds", "dsn")
    return server.show(found, columns, rows)


def clients(*, server: Server = HERE) -> int:
    """List the clients, whether they are alive, and what they hold.

    They hold queues of which they have claims (their number), or which they own (*).
    """
    with server.client() as tarry:
        found = list(tarry.clients())
    rows: list[tuple[Any, ...]] = []
    for one in found:
        claims = sum(held["claims"] for held in one["holds"])
        alive = _ALIVE[one["alive"]]
        rows.append((one["client"], one["registered_at"], one["renewed_at"], alive, claims, _holds(one["holds"])))
    return server.show(found, ("client", "registered", "renewed", "alive", ">claims", "holds"), rows)


def _holds(holds: Iterable[Mapping[str, Any]]) -> str:
    """The queues by group, such as `payments/ledger: 0* (1), 2*`."""
    groups: dict[str, list[str]] = {}
    for held in holds:
        queue = f"{held['queue']}{'*' if held['owner'] else ''}"
        if held["claims"]:
            queue += f" ({held['claims']})"
        groups.setdefault(f"{held['topic']}/{held['group']}", []).append(queue)
    return "; ".join(f"{group}: {', '.join(queues)}" for group, queues in groups.items())


def confirm(what: str, *, yes: bool, instead: str = "; --dry-run only tells what would be done") -> None:
    """Asks for confirmation on a terminal; elsewhere --yes is required. Raises `UsageError` unless confirmed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"say --yes to {what}{instead}")
    sys.stderr.write(visible(f"tarry: {what}? [y/N] "))
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was done")
