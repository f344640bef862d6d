"""Schedules on the command line: what its tables tell."""

from typing import Any

import pytest

from support.command_line import CommandLine
from support.scripted_server import Answer, ScriptedServer

TIMES = [f"2030-01-0{day}T09:00:00.000Z" for day in range(1, 6)]


def schedule(name: str, **more: Any) -> dict[str, Any]:
    spec = {"topic": "orders", "every": "1d", "body": 1}
    return {"name": name, "spec": spec, "next": TIMES, "paused": False, "revision": 1} | more


def test_what_has_ended_is_told(script: ScriptedServer, tarry: CommandLine) -> None:
    found = [schedule("daily"), schedule("done", next=[]), schedule("rests", next=[], paused=True)]
    script.say(Answer(200, {"schedules": found, "cursor": None}))
    told = {row[0]: row[3] for row in tarry("schedule", "list").rows}
    assert told == {"schedule": "next", "daily": TIMES[0], "done": "ended", "rests": ""}


def test_a_dry_run_tells_the_next_times(script: ScriptedServer, tarry: CommandLine) -> None:
    script.say(Answer(200, schedule("daily", revision=0)))
    printed = tarry("schedule", "put", "daily", "1", "--topic", "orders", "--every", "1d", "--dry-run")
    assert printed.lines[2:] == ["would fire", *TIMES]
    assert printed.err == "nothing was done\n"


@pytest.mark.parametrize("said", ["never", "Once"])
def test_what_becomes_of_late_ones(said: str, script: ScriptedServer, tarry: CommandLine) -> None:
    printed = tarry("schedule", "put", "d", "1", "--topic", "t", "--every", "1d", "--misfire", said, code=2)
    assert f"{said} is not once, skip, or a duration such as 1h" in printed.words


def test_one_that_is_to_be_removed_has_no_dry_run(script: ScriptedServer, tarry: CommandLine) -> None:
    assert tarry("schedule", "rm", "daily", code=2).err == "tarry: say --yes to remove the schedule daily for good\n"


def test_a_timer_that_is_kept(script: ScriptedServer, tarry: CommandLine) -> None:
    kept = {"id": "5", "key": "k", "revision": 1, "deliver_at": TIMES[0], "state": "scheduled", "kept": True}
    script.say(Answer(200, kept))
    printed = tarry("timer", "set", "t", "k", "1", "--delay", "1h", "--mode", "keep")
    assert printed.err == "one waits already, and is kept: nothing was set\n"


def test_the_history_tells_how_far_fire_times_were_missed(script: ScriptedServer, tarry: CommandLine) -> None:
    missed = {"fire_at": TIMES[0], "what": "missed", "at": TIMES[3], "missed_until": TIMES[3]}
    script.say(Answer(200, schedule("daily")))
    script.say(Answer(200, {"fires": [missed], "cursor": None}))
    assert tarry("schedule", "show", "daily").rows[-1] == [TIMES[0], "missed", TIMES[3], "", TIMES[3]]
