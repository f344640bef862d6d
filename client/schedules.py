"""The calls on schedules: messages that are sent again and again."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from . import spans
from .arguments import given
from .bodies import written
from .calling import Calling
from .calls import Call, Page, Reply, paged, part
from .durations import Duration, duration_out, instant_in, instant_out
from .fronts import api_call, api_pages
from .records import Draft, Fire, Schedule
from .timers import condition

Misfire = Literal["once", "skip"] | Mapping[str, Duration]
_PATH = "/v1/schedules"


class ScheduleCalls(Calling):
    """The calls on schedules, of both fronts."""

    @api_call
    async def put_schedule(
        self,
        name: str,
        *,
        topic: str,
        body: Any,
        cron: str | None = None,
        timezone: str | None = None,
        every: Duration | None = None,
        starts_at: datetime | str | None = None,
        ends_at: datetime | str | None = None,
        jitter: Duration | None = None,
        misfire: Misfire | None = None,
        overlap: Literal["allow", "skip", "queue_one"] | None = None,
        group: str | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        tag: str | None = None,
        ordering_key: str | None = None,
        content_type: str | None = None,
        paused: bool | None = None,
        match: int | None = None,
        dry_run: bool = False,
    ) -> Schedule:
        """Makes or replaces a schedule: a message at the times of `cron` in `timezone`, or one per `every`.

        The same call again changes nothing. `match`: only at this revision; 0: only if there is none. `dry_run` changes
        nothing and returns the schedule as it would be, with its fire times. Raises `BadRequest`, which names the
        field, and `Changed`.
        """
        draft = Draft(
            body=body, content_type=content_type, key=key, headers=headers, tag=tag, ordering_key=ordering_key
        )
        spec = {
            "topic": topic,
            "cron": cron,
            "timezone": timezone,
            "every": None if every is None else duration_out(every, "every"),
            "starts_at": None if starts_at is None else instant_out(starts_at, "starts_at"),
            "ends_at": None if ends_at is None else instant_out(ends_at, "ends_at"),
            "jitter": None if jitter is None else duration_out(jitter, "jitter"),
            "misfire": {k: duration_out(v, k) for k, v in misfire.items()} if isinstance(misfire, Mapping) else misfire,
            "overlap": overlap,
            "group": group,
            "paused": paused,
        }
        content = written(draft, self._json, **given(spec))
        params = {"dry_run": "true"} if dry_run else None
        call = Call("PUT", _path(name), _read, content, params=params, headers=condition(match))
        return await self._transport.send(call)

    @api_call
    async def schedule(self, name: str) -> Schedule:
        """A schedule, and when it fires next. Raises `NotFound`."""
        return await self._transport.send(Call("GET", _path(name), _read))

    @api_pages
    def schedules(self) -> Call[Page[Schedule]]:
        """All schedules by name, page by page."""
        return paged(_PATH, {}, lambda document: map(Schedule.read, document["schedules"]))

    @api_call
    async def delete_schedule(self, name: str, *, match: int | None = None) -> tuple[Fire, ...]:
        """Removes a schedule and its waiting message; returns the fire times that had come and are not sent any more.
        Raises `NotFound`, `Changed`."""

        def unsent(reply: Reply) -> tuple[Fire, ...]:
            return tuple(map(Fire.read, reply.document.get("unsent", ())))

        return await self._transport.send(Call("DELETE", _path(name), unsent, headers=condition(match)))

    @api_call
    async def pause_schedule(self, name: str) -> Schedule:
        """Pauses a schedule: it sends nothing from now on."""
        return await self._transport.send(Call("POST", f"{_path(name)}/pause", _read))

    @api_call
    async def resume_schedule(self, name: str) -> Schedule:
        """Resumes a schedule with its next fire time; those in between are left out."""
        return await self._transport.send(Call("POST", f"{_path(name)}/resume", _read))

    @api_call
    async def run_schedule(self, name: str) -> str:
        """Sends a message of a schedule now, paused or not; returns the message's id."""
        # Not tried again: that would be another message.
        call = Call("POST", f"{_path(name)}/run", lambda reply: str(reply.document["id"]), once=True)
        with spans.sending("", schedule=name) as sent:
            return sent.done(await self._transport.send(call))

    @api_call
    async def backfill_schedule(
        self, name: str, start: datetime | str, end: datetime | str, *, dry_run: bool = False
    ) -> dict[str, int]:
        """Sends the messages of fire times from `start` to before `end` that were not sent; returns how many `times`
        there are, 1000 at most, and how many were `sent`, or would be with `dry_run`."""
        request = {"from": instant_out(start, "start"), "to": instant_out(end, "end"), "dry_run": dry_run}
        with spans.sending("", schedule=name):
            return await self._call("POST", f"{_path(name)}/backfill", request)

    @api_call
    async def next_times(self, name: str, count: int = 5) -> list[datetime]:
        """The next fire times of a schedule; of a paused one, those it would have."""
        document = await self._call("GET", f"{_path(name)}/next", params={"count": count})
        return [instant_in(at) for at in document["times"]]

    @api_pages
    def fires(self, name: str) -> Call[Page[Fire]]:
        """What became of a schedule's fire times, the latest first, page by page."""
        return paged(f"{_path(name)}/fires", {}, lambda document: map(Fire.read, document["fires"]))


def _path(name: str) -> str:
    return f"{_PATH}/{part(name)}"


def _read(reply: Reply) -> Schedule:
    return Schedule.read(reply.document)
