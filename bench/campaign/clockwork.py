"""The schedules of the load: creates them at the start, pauses them before the drain, and records their fire times.

Tarry keeps the last thousand fire times of a schedule, so in a long run they are asked for now and then.
"""

from datetime import UTC, datetime
from math import inf
from typing import Any

import trio

from .caller import Caller
from .crew import Crew, ms_of
from .message import FIRE_AT, SCHEDULE, digest_of, fire_name
from .plan import SCHEDULES, TICKS

_BODY = {"name": TICKS, "pad": ""}
_SENT = ("fired", "run", "backfilled")
_FIRST = 2_000
"""Milliseconds from now to the first fire time."""
_REST = 0.2
_TOLD_EVERY = 600.0
"""Seconds, in which the schedule that fires most often does so 300 times."""
_SETTLED = 120_000
"""Milliseconds after which a pause does not change the outcome of a fire time any more."""


async def make_schedules(crew: Crew, caller: Caller) -> None:
    """Creates the schedules; each begins at a whole second."""
    since = (round(crew.store_ms) + _FIRST) // 1000 * 1000
    for name, (every, more) in SCHEDULES.items():
        crew.journal.write("schedule", "ok", facts={"schedule": name, "since": since, "every": every})
        spec = {"topic": TICKS, "every": every, "starts_at": _text(since), "body": _BODY, **more}
        with trio.fail_after(30):
            while (await caller.ask("PUT", f"/v1/schedules/{name}", spec)).phase != "ok":
                await trio.sleep(_REST)


async def pause_schedules(crew: Crew, caller: Caller) -> None:
    """Pauses the schedules, so that they send nothing more."""
    for name in SCHEDULES:
        while (await caller.ask("POST", f"/v1/schedules/{name}/pause", {})).phase != "ok":
            await trio.sleep(_REST)
        crew.journal.write("schedule", "ok", reason="paused", facts={"schedule": name})


async def keep_telling_fires(crew: Crew, caller: Caller) -> None:
    """Records fire times now and then, until it is cancelled."""
    while True:
        await trio.sleep(_TOLD_EVERY)
        await tell_fires(crew, caller, until_ms=crew.store_ms - _SETTLED)


async def tell_fires(crew: Crew, caller: Caller, until_ms: float = inf) -> None:
    """Records the outcome of each fire time before `until_ms` that was not recorded before, as the service reports it,
    and the digest of the message it must have sent."""
    for name in SCHEDULES:
        known = crew.fires_told.setdefault(name, set())
        async for fire in caller.pages(f"/v1/schedules/{name}/fires", "fires"):
            due, at = ms_of(fire["fire_at"]), ms_of(fire["at"])
            if due in known or due > until_ms:
                continue
            known.add(due)
            message = {"body": _BODY, "headers": {SCHEDULE: name, FIRE_AT: fire["fire_at"]}}
            line: dict[str, Any] = {"name": fire_name(name, fire["fire_at"]), "topic": TICKS, "due_ms": due}
            line |= {"digest": digest_of(message), "id": fire.get("id") or "", "reason": fire["what"]}
            sent = "ok" if fire["what"] in _SENT else "fail"
            crew.journal.write("fire", sent, **line, facts={"schedule": name, "at": at})


def _text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
