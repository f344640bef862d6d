"""Schedules: the calls. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from .arguments import given
from .bodies import Dumps, written
from .calls import Call, Page, Reply, paged, part
from .durations import Duration, duration_out, instant_in, instant_out
from .records import Draft, Fire, Schedule
from .timers import condition

Misfire = Literal["once", "skip"] | Mapping[str, Duration]
_PATH = "/v1/schedules"


def put_schedule(
    name: str,
    draft: Draft,
    json: Dumps | None,
    *,
    match: int | None,
    dry_run: bool,
    misfire: Misfire | None,
    jitter: Duration | None,
    every: Duration | None,
    starts_at: datetime | str | None,
    ends_at: datetime | str | None,
    **rest: Any,
) -> Call[Schedule]:
    """The schedule. With a revision to `match` it is changed only at this one; 0: only made."""
    late = None
    if misfire is not None:
        late = misfire if isinstance(misfire, str) else {k: duration_out(v, k) for k, v in misfire.items()}
    times = {
        "every": None if every is None else duration_out(every, "every"),
        "jitter": None if jitter is None else duration_out(jitter, "jitter"),
        "starts_at": None if starts_at is None else instant_out(starts_at, "starts_at"),
        "ends_at": None if ends_at is None else instant_out(ends_at, "ends_at"),
        "misfire": late,
    }
    content = written(draft, json, **given(rest | times))
    params = {"dry_run": "true"} if dry_run else None
    return Call("PUT", path(name), read, content, params=params, headers=condition(match))


def schedule(name: str) -> Call[Schedule]:
    """The schedule."""
    return Call("GET", path(name), read)


def schedules() -> Call[Page[Schedule]]:
    """The first page of all schedules."""
    return paged(_PATH, {}, lambda document: map(Schedule.read, document["schedules"]))


def fires(name: str) -> Call[Page[Fire]]:
    """The first page of a schedule's fire times, the latest first."""
    return paged(f"{path(name)}/fires", {}, lambda document: map(Fire.read, document["fires"]))


def delete_schedule(name: str, *, match: int | None) -> Call[tuple[Fire, ...]]:
    """When it is no more: the fire times that had come and are not sent."""

    def read_unsent(reply: Reply) -> tuple[Fire, ...]:
        return tuple(map(Fire.read, reply.document.get("unsent", ())))

    return Call("DELETE", path(name), read_unsent, headers=condition(match))


def switch(name: str, word: Literal["pause", "resume"]) -> Call[Schedule]:
    """The schedule, as it is then."""
    return Call("POST", f"{path(name)}/{word}", read)


def run(name: str) -> Call[str]:
    """The id of its message. It is not tried again: that would be another message."""
    return Call("POST", f"{path(name)}/run", lambda reply: str(reply.document["id"]), once=True)


def next_times(name: str, count: int) -> Call[list[datetime]]:
    """Its next fire times."""
    times = f"{path(name)}/next"
    return Call("GET", times, lambda reply: [instant_in(at) for at in reply.document["times"]], params={"count": count})


def path(name: str) -> str:
    """Of a schedule."""
    return f"{_PATH}/{part(name)}"


def read(reply: Reply) -> Schedule:
    """A schedule, from an answer."""
    return Schedule.read(reply.document)
