"""The calls about schedules, which send messages again and again."""

import msgspec
import trio
from msgspec import UNSET

from ...store.rows import ScheduleRow
from ...store.schedules import schedules
from ...store.schedules.firing import is_kept
from ...store.schedules.schedules import Fire, Wish
from ..durations import format_time, parse_time
from ..schedules.courses import FIRE_AT, NAME
from ..schedules.cron import check_steps
from ..schedules.rule import Rule
from ..schedules.spec import Plan, Spec, WrongSpec, check_overlap, plan, plan_of, read_spec
from . import answers
from .asgi import Response
from .call import Call, answer
from .drafts import check_single
from .messages import PAGE
from .names import wrong_name
from .problems import Problem, bad_cursor, bad_field, bad_parameter
from .requests import Backfill, CatchUp, Message, PutSchedule
from .revisions import condition, revision_of, tagged, unmatched

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_OF_MESSAGE = {*Message.__struct_fields__} & {*Spec.__struct_fields__}
_SHOWN = 5
"""Fire times that an answer shows."""
_MOST = 1000
"""The most fire times of a backfill."""
_END = 1 << 62


async def put_schedule(call: Call) -> Response:
    """Create a schedule or change one; with dry_run only tell what it would be.

    Repeating the same request changes nothing, so a program may declare its schedules again and again.
    """
    request = await call.read(PutSchedule)
    name, now = call.part("name"), call.node.clock.now()
    if wrong := wrong_name(request.topic):
        raise bad_field("/topic", wrong)
    call.demand("operate", request.topic)
    spec, message = _checked(call, request)
    revision, absent = condition(call)
    known = await call.node.store.read(schedules.find_schedule, name)
    if known is not None and not call.holder.scopes.reach("operate", _topic_of(known)):
        raise _unmatched(None) if revision is not None else _out_of_reach(name)
    planned = _planned(name, spec, now if known is None else known.made_at)
    _check_steps(spec, known)
    _check_end(planned.rule, known, now)
    if _is_dry(call):
        paused = bool(known is not None and known.paused) if request.paused is None else request.paused
        times = planned.rule.upcoming(now, _SHOWN)
        return answer(_told(name, spec, times, paused=paused, revision=0 if known is None else known.revision))
    topic = await call.node.directory.topic(request.topic)
    queue = check_single(call, message).placed(call.node.intake, topic).queue
    wish = Wish(name, topic, queue, msgspec.json.encode(spec), request.paused, revision, absent)
    result, row = await call.node.schedules.put(wish)
    if result == "unmatched" or row is None:
        raise _unmatched(row)
    return _answer(call, row, 201 if result == "made" else 200)


async def get_schedule(call: Call) -> Response:
    """Get a schedule, and when it fires next."""
    return _answer(call, await _row(call, "read"))


async def list_schedules(call: Call) -> Response:
    """List the schedules by name, page by page."""
    limit = call.number(call.query.get("max"), "max", default=PAGE, low=1, high=1000)
    after = call.query.get("cursor") or ""
    if after and wrong_name(after):
        raise bad_cursor()
    rows = await call.node.store.read(schedules.page, after, limit)
    told: list[answers.ScheduleAnswer] = []
    for row in rows:
        told.append(_listed(call, row))
        await trio.lowlevel.checkpoint()  # finding the next times of a rare cron takes a millisecond
    return answer(answers.ScheduleList(schedules=told, cursor=rows[-1].name if len(rows) == limit else None))


async def remove_schedule(call: Call) -> Response:
    """Remove a schedule and its waiting message; the answer lists due fire times that are not sent any more."""
    revision = revision_of(call)
    name = (await _row(call, "operate")).name
    removed, row, unsent = await call.node.schedules.remove(name, revision)
    if row is None:
        raise _unknown(call)
    if not removed:
        raise _unmatched(row)
    return answer(answers.RemovedSchedule(name=name, unsent=list(map(_told_fire, unsent)) or UNSET))


async def pause_schedule(call: Call) -> Response:
    """Pause a schedule: it sends nothing until it is resumed."""
    return await _pause(call, paused=True)


async def resume_schedule(call: Call) -> Response:
    """Resume a schedule: it goes on with its next fire time; those in between are left out."""
    return await _pause(call, paused=False)


async def run_schedule(call: Call) -> Response:
    """Send a message of a schedule now, paused or not."""
    row = await _row(call, "operate")
    sent = await call.node.schedules.run(row.name, call.trace)
    if sent is None:
        raise _unknown(call)
    return answer(answers.RunAnswer(id=str(sent[0]), fire_at=format_time(sent[1])), 201)


async def backfill_schedule(call: Call) -> Response:
    """Send the messages of past fire times that were not sent."""
    row = await _row(call, "operate")
    request = await call.read(Backfill)
    begin, end = call.time(request.from_, "/from"), call.time(request.to, "/to")
    if end <= begin:
        raise bad_field("/to", "it is not after from")
    if end > call.node.clock.now():
        raise bad_field("/to", "it lies ahead: what is to come comes by itself")
    times = _plan(row).rule.upcoming(begin - 1, _MOST + 1, until=end - 1)
    if len(times) > _MOST:
        raise bad_field("/to", f"there are more than {_MOST} fire times until then: take a shorter range")
    if request.dry_run:
        return answer(
            answers.BackfillAnswer(times=len(times), sent=len(await call.node.store.read(schedules.unsent, row, times)))
        )
    sent = await call.node.schedules.backfill(row.name, times, call.trace)
    if sent is None:
        raise _unknown(call)
    return answer(answers.BackfillAnswer(times=len(times), sent=len(sent)))


async def next_of_schedule(call: Call) -> Response:
    """List when a schedule fires next; if it is paused, when it would."""
    count = call.number(call.query.get("count"), "count", default=_SHOWN, low=1, high=100)
    row = await _row(call, "read")
    return answer(answers.NextAnswer(times=[format_time(at) for at in _upcoming(call, row, count)]))


async def fires_of_schedule(call: Call) -> Response:
    """List what became of a schedule's fire times, the latest first."""
    limit = call.number(call.query.get("max"), "max", default=PAGE, low=1, high=1000)
    before = call.number(call.query.get("cursor"), "cursor", default=_END, low=0, high=_END)
    row = await _row(call, "read")
    found = await call.node.store.read(schedules.fires, row.id, before, limit)
    told = [_told_fire(one) for one in found]
    return answer(answers.FirePage(fires=told, cursor=str(found[-1].fire_at) if len(found) == limit else None))


def _told_fire(one: Fire) -> answers.FireAnswer:
    return answers.FireAnswer.of(one, id=UNSET if one.message_id is None else str(one.message_id))


async def _pause(call: Call, *, paused: bool) -> Response:
    row = await _row(call, "operate")
    changed = await call.node.schedules.pause(row.name, paused=paused)
    if changed is None:
        raise _unknown(call)
    return _answer(call, changed)


def _checked(call: Call, request: PutSchedule) -> tuple[Spec, Message]:
    """The specification and the message of the schedule; all but the times are checked."""
    said = {name: getattr(request, name) for name in Spec.__struct_fields__}
    if isinstance(request.misfire, CatchUp):
        said["misfire"] = {"catch_up": request.misfire.catch_up}
    spec = Spec(**said)
    message = Message(**{name: getattr(request, name) for name in _OF_MESSAGE})
    check_single(call, message)
    if taken := {NAME, FIRE_AT}.intersection(request.headers or ()):
        raise bad_field("/headers", f"{min(taken)} is set by the schedule")
    if request.group is not None and (wrong := wrong_name(request.group)):
        raise bad_field("/group", wrong)
    return spec, message


def _planned(name: str, spec: Spec, made_at: int) -> Plan:
    if spec.timezone == "":  # a variable that was not set, more likely than UTC
        raise bad_field("/timezone", 'it is empty: write an IANA name such as "Europe/Berlin", or leave it out for UTC')
    try:
        check_overlap(spec)
        return plan(name, spec, made_at)
    except WrongSpec as error:
        raise bad_field(error.pointer, str(error)) from None


def _check_steps(spec: Spec, known: ScheduleRow | None) -> None:
    """Raises a `Problem` for a cron whose steps mean another interval than they seem to; one that is already set may be
    declared again."""
    if spec.cron is None or (known is not None and _spec(known).cron == spec.cron):
        return
    try:
        check_steps(spec.cron)
    except ValueError as error:
        raise bad_field("/cron", str(error)) from None


def _check_end(rule: Rule, known: ScheduleRow | None, now: int) -> None:
    """Raises a `Problem` for an end that leaves no fire time. A schedule that has ended may be declared again with the
    same end, and changed otherwise: it has only run its course."""
    if rule.ends_at is None:
        return
    if known is None:
        wrong = rule.after(now) is None
    else:
        before = _spec(known).ends_at
        wrong = rule.ends_at <= now and (before is None or parse_time(before) != rule.ends_at)
    if wrong:
        raise bad_field("/ends_at", f"no fire time comes until then: the server's time is {format_time(now)}")


def _is_dry(call: Call) -> bool:
    said = call.query.get("dry_run", "false")
    if said not in ("true", "false"):
        raise bad_parameter("dry_run", "there are true and false")
    return said == "true"


async def _row(call: Call, verb: str) -> ScheduleRow:
    """The schedule in the path. Raises a `Problem`, 404, if there is none or the key's scopes do not cover its
    topic."""
    row = await call.node.store.read(schedules.find_schedule, call.part("name"))
    if row is None or not call.holder.scopes.reach(verb, _topic_of(row)):
        raise _unknown(call)
    return row


def _topic_of(row: ScheduleRow) -> str:
    return _spec(row).topic


def _spec(row: ScheduleRow) -> Spec:
    """Its specification; an empty one if the row was overwritten from outside, so that it can be set anew or
    removed."""
    try:
        return read_spec(row.spec)
    except _UNREADABLE:
        return Spec("")


def _plan(row: ScheduleRow) -> Plan:
    try:
        return plan_of(row.name, row.spec, row.made_at)
    except WrongSpec as error:  # it was valid when it was set
        raise bad_field(error.pointer, f"this server's time zones do not know it: {error}") from None
    except _UNREADABLE:
        raise Problem(
            "bad-request", "somebody has written over what it says, and it cannot be read: set it anew"
        ) from None


def _upcoming(call: Call, row: ScheduleRow, count: int) -> list[int]:
    after = max(call.node.clock.now(), row.last_at) if row.next_at is None or is_kept(row) else row.next_at - 1
    return _plan(row).rule.upcoming(after, count)


def _answer(call: Call, row: ScheduleRow, status: int = 200) -> Response:
    return tagged(answer(_told_of(call, row), status), row.revision)


def _told_of(call: Call, row: ScheduleRow) -> answers.ScheduleAnswer:
    times = [] if row.paused else _upcoming(call, row, _SHOWN)
    return _told(row.name, _spec(row), times, paused=bool(row.paused), revision=row.revision)


def _listed(call: Call, row: ScheduleRow) -> answers.ScheduleAnswer:
    """A schedule in a list; if it cannot be read, without its times, so that the others are listed all the same."""
    try:
        return _told_of(call, row)
    except Problem:
        pass
    return _told(row.name, _spec(row), [], paused=bool(row.paused), revision=row.revision)


def _told(name: str, spec: Spec, times: list[int], *, paused: bool, revision: int) -> answers.ScheduleAnswer:
    return answers.ScheduleAnswer(
        name=name,
        spec=msgspec.Raw(msgspec.json.encode(spec)),
        next=[format_time(at) for at in times],
        paused=paused,
        revision=revision,
    )


def _unknown(call: Call) -> Problem:
    return Problem("unknown-schedule", f"there is no schedule {call.part('name')!r}")


def _out_of_reach(name: str) -> Problem:
    """403: such a schedule exists, as a key that cannot create it finds out anyway, but nothing else of it is told."""
    detail = f"the schedule {name!r} is out of the key's reach: choose another name"
    return Problem("forbidden", detail, executed=False)


def _unmatched(row: ScheduleRow | None) -> Problem:
    if row is None:
        return unmatched("there is none", None)
    return unmatched(f"it is at revision {row.revision}", row.revision)
