"""The commands `schedule list|show|put|apply|pause|resume|run|next|rm`, which manage recurring messages."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, cast

import attrs
from cyclopts import App, Parameter, Token

from ...client import BadRequest, Fire, NotFound, Schedule, Tarry
from ...store.named_files import toml_of
from .flags import flag, whole
from .operating import confirm
from .options import AsText, Body, ContentType, DryRun, Header, OrderingKey, Tag, Topic, Yes, duration
from .printing import UsageError
from .producing import body_of, headers_of
from .rendering import time_text
from .server import HERE, Server

schedule = App(name="schedule", help="Messages that come again and again.")

Name = Annotated[str, Parameter(help="The schedule.")]

_FIELDS = signature(Tarry.put_schedule).parameters.keys() - {"self", "name", "match", "dry_run"}
"""What a file may say of a schedule: all that the call takes, but for what is of one request."""


def _misfire(type_: object, tokens: Sequence[Token]) -> str:
    said = tokens[0].value
    if said[:1].isalpha() and said[:1] not in "Pp" and said not in ("once", "skip"):
        raise ValueError(f"{said} is not once, skip, or a duration such as 1h")
    return duration(type_, tokens)


@schedule.command(name="list")
def list_(*, server: Server = HERE) -> int:
    """List the schedules, and when each fires next."""
    with server.client() as tarry:
        return _show(server, list(tarry.schedules()))


@schedule.command
def show(name: Name, /, *, server: Server = HERE) -> int:
    """Show a schedule, and what became of its last fire times.

    Exit code 3 when there is none.
    """
    with server.client() as tarry:
        one = tarry.schedule(name)
        fires = [fire for fire, _ in zip(tarry.fires(name), range(10), strict=False)]
    shown = _show(server, [one])
    return (
        shown if server.json else server.show([], ("fire time", "what", "at", "id", "missed until"), map(_fire, fires))
    )


def _fire(fire: Fire) -> Sequence[object]:
    until = None if fire.missed_until is None else time_text(fire.missed_until)
    return time_text(fire.fire_at), fire.what, time_text(fire.at), fire.id, until


@schedule.command
def put(
    name: Name,
    body: Body,
    /,
    *,
    topic: Topic,
    cron: Annotated[str | None, Parameter(help='Five fields, or six with seconds first: "0 9 * * *".')] = None,
    timezone: Annotated[str | None, Parameter(help="Of --cron: Europe/Berlin; UTC unless said.")] = None,
    every: Annotated[str | None, Parameter(converter=duration, help="In place of --cron: 10m, 48h, PT10M.")] = None,
    starts_at: Annotated[str | None, Parameter(help="No fire time before it: 2030-01-01T09:00:00Z.")] = None,
    ends_at: Annotated[str | None, Parameter(help="No fire time after it.")] = None,
    jitter: Annotated[str | None, Parameter(converter=duration, help="Messages are up to so much later.")] = None,
    misfire: Annotated[
        str | None, Parameter(converter=_misfire, help="once, skip, or a duration to catch up within.")
    ] = None,
    skip_while: Annotated[
        str | None, Parameter(help="None is sent while the one before is unsettled in this group.")
    ] = None,
    queue_while: Annotated[
        str | None, Parameter(help="One is kept back while the one before is unsettled in this group.")
    ] = None,
    key: Annotated[str | None, Parameter(help="A key of your own.")] = None,
    header: Header = None,
    tag: Tag = None,
    ordering_key: OrderingKey = None,
    text: AsText = False,
    content_type: ContentType = None,
    match: Annotated[int | None, whole("Only at this revision; 0: only when there is none.")] = None,
    dry_run: DryRun = False,
    server: Server = HERE,
) -> int:
    """Make a schedule, or change it.

    With --dry-run, only tell when it would fire.
    """
    if skip_while is not None and queue_while is not None:
        raise UsageError("give --skip-while or --queue-while, not both")
    overlap: Any = "queue_one" if queue_while is not None else None if skip_while is None else "skip"
    late: Any = {"catch_up": misfire} if misfire not in (None, "once", "skip") else misfire
    with server.client() as tarry:
        done = tarry.put_schedule(
            name,
            topic=topic,
            body=body_of(body, text, content_type),
            cron=cron,
            timezone=timezone,
            every=every,
            starts_at=starts_at,
            ends_at=ends_at,
            jitter=jitter,
            misfire=late,
            overlap=overlap,
            group=skip_while or queue_while,
            key=key,
            headers=headers_of(header),
            tag=tag,
            ordering_key=ordering_key,
            content_type=content_type,
            match=match,
            dry_run=dry_run,
        )
    shown = _show(server, [done])
    if not dry_run or server.json:
        return shown
    return server.show([], ("would fire",), [(time_text(at),) for at in done.next], "nothing was done")


@schedule.command
def apply(
    file: Annotated[Path, Parameter(help="TOML, a table for each schedule, by its name.")],
    /,
    *,
    prune: Annotated[bool, flag("Remove the schedules that are not in the file.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = HERE,
) -> int:
    """Make the schedules match a file.

    All of it is checked before anything is done; applying it again changes nothing. --prune asks before it removes.
    """
    wanted = _read(file)
    with server.client() as tarry:
        there = {one.name: one for one in tarry.schedules()}
        planned = _planned(tarry, wanted, there, file)
        gone = sorted(set(there) - set(wanted)) if prune else []
        if not dry_run:
            if gone:
                confirm(f"remove the schedules {', '.join(gone)} for good", yes=yes)
            for name, what, _ in planned:
                if what not in ("leave", "ended"):
                    tarry.put_schedule(name, **wanted[name])
            for name in gone:
                with suppress(NotFound):  # somebody else has removed it meanwhile
                    tarry.delete_schedule(name)
    rows = [(name, what, next_) for name, what, next_ in planned] + [(name, "remove", None) for name in gone]
    items = [{"name": name, "what": what, "next": next_} for name, what, next_ in rows]
    return server.show(items, ("schedule", "what", "next"), rows, "nothing was done" if dry_run else "")


@schedule.command
def pause(name: Name, /, *, server: Server = HERE) -> int:
    """Pause a schedule: send nothing until it is resumed."""
    with server.client() as tarry:
        return _show(server, [tarry.pause_schedule(name)])


@schedule.command
def resume(name: Name, /, *, server: Server = HERE) -> int:
    """Resume a schedule; fire times in between are left out."""
    with server.client() as tarry:
        return _show(server, [tarry.resume_schedule(name)])


@schedule.command
def run(name: Name, /, *, server: Server = HERE) -> int:
    """Send a message of a schedule now, paused or not."""
    with server.client() as tarry:
        id_ = tarry.run_schedule(name)
    return server.show([{"name": name, "id": id_}], ("schedule", "id"), [(name, id_)])


@schedule.command(name="next")
def next_(name: Name, /, *, count: Annotated[int, whole("How many, 1 to 100.")] = 5, server: Server = HERE) -> int:
    """Tell when a schedule fires next."""
    with server.client() as tarry:
        times = [time_text(at) for at in tarry.next_times(name, count)]
    return server.show([{"name": name, "at": at} for at in times], ("next",), [(at,) for at in times])


@schedule.command
def rm(name: Name, /, *, yes: Yes = False, server: Server = HERE) -> int:
    """Remove a schedule, and its waiting message."""
    confirm(f"remove the schedule {name} for good", yes=yes, instead="")
    with server.client() as tarry:
        unsent = tarry.delete_schedule(name)
    times = [time_text(fire.fire_at) for fire in unsent]
    remark = f"had come and is not sent any more: {', '.join(times)}" if times else ""
    item = {"name": name, "result": "removed", "unsent": times}
    return server.show([item], ("schedule", "result"), [(name, "removed")], remark)


_ENDED = "no fire time comes until then"
"""How the server's error begins for an `ends_at` that leaves no fire time."""


def _read(file: Path) -> dict[str, dict[str, Any]]:
    """The fields of each schedule in the file. Raises `UsageError`."""
    try:
        tables = toml_of(file)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for name, said in tables.items():
        if not isinstance(said, dict):
            raise UsageError(f"{file}: {name} is no schedule: write a table [{name}]")
        fields = cast("dict[str, Any]", said)
        for field in fields:
            if field not in _FIELDS:
                near = get_close_matches(field, _FIELDS, 1)
                raise UsageError(
                    f"{file}: [{name}]: {field} is no field of a schedule"
                    + (f"; did you mean {near[0]}?" if near else "")
                )
        missing = {"topic", "body"}.difference(fields)
        if missing:
            raise UsageError(f"{file}: [{name}] needs {' and '.join(sorted(missing))}")
    return tables


def _planned(
    tarry: Tarry, wanted: Mapping[str, Mapping[str, Any]], there: Mapping[str, Schedule], file: Path
) -> list[tuple[str, str, str | None]]:
    """What would be done with each schedule. Raises `UsageError`, which names all faults."""
    planned: list[tuple[str, str, str | None]] = []
    wrong: list[str] = []
    for name, said in wanted.items():
        try:
            planned.append((name, *_plan(tarry, name, said, there.get(name))))
        except (BadRequest, ValueError, TypeError) as error:  # no duration, no JSON
            wrong.append(f"{file}: [{name}]: {error}")
    if wrong:
        raise UsageError("\n".join(wrong))
    return planned


def _plan(tarry: Tarry, name: str, said: Mapping[str, Any], there: Schedule | None) -> tuple[str, str | None]:
    """Whether the schedule would be made, changed or left, and when it would fire next. A file may name a schedule that
    has ended: if it does not exist, it is not made."""
    try:
        would = tarry.put_schedule(name, **said, dry_run=True)
    except BadRequest as error:
        if there is None and any(str(one.get("detail")).startswith(_ENDED) for one in error.errors):
            return "ended", None
        raise
    at = time_text(would.next[0]) if would.next and not would.paused else None
    if there is None:
        return "make", at
    return "leave" if (there.spec, there.paused) == (would.spec, would.paused) else "change", at


_COLUMNS: Sequence[str] = ("schedule", "topic", "when", "next", "paused", ">revision")


def _show(server: Server, found: Sequence[Schedule]) -> int:
    items: list[dict[str, Any]] = []
    rows: list[Sequence[object]] = []
    for one in found:
        times = [time_text(at) for at in one.next]
        items.append(attrs.asdict(one) | {"next": times})
        when = one.spec.get("cron") or f"every {one.spec.get('every')}"
        zone = one.spec.get("timezone")
        told = when if zone is None else f"{when} {zone}"
        paused = "yes" if one.paused else ""
        next_ = times[0] if times else None if one.paused else "ended"
        rows.append((one.name, one.spec["topic"], told, next_, paused, one.revision))
    return server.show(items, _COLUMNS, rows)
