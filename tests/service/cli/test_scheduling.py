"""Schedules on the command line: what its tables tell."""

from typing import Any

import pytest

from support.scripted_server import Answer, ScriptedServer
from tarry.service.cli.app import run

TIMES = [f"2030-01-0{day}T09:00:00.000Z" for day in range(1, 6)]


def schedule(name: str, **more: Any) -> dict[str, Any]:
    spec = {"topic": "orders", "every": "1d", "body": 1}
    return {"name": name, "spec": spec, "next": TIMES, "paused": False, "revision": 1} | more


def test_what_has_ended_is_told(script: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    found = [schedule("daily"), schedule("done", next=[]), schedule("rests", next=[], paused=True)]
    script.say(Answer(200, {"schedules": found, "cursor": None}))
    assert run(["schedule", "list"]) == 0
    lines = {line.split("\t")[0]: line.split("\t")[3] for line in capsys.readouterr().out.splitlines()}
    assert lines == {"schedule": "next", "daily": TIMES[0], "done": "ended", "rests": ""}


def test_a_dry_run_tells_the_next_times(script: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    script.say(Answer(200, schedule("daily", revision=0)))
    assert run(["schedule", "put", "daily", "1", "--topic", "orders", "--every", "1d", "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[2:] == ["would fire", *TIMES]
    assert captured.err == "nothing was done\n"


@pytest.mark.parametrize("said", ["never", "Once"])
def test_what_becomes_of_late_ones(said: str, script: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedule", "put", "d", "1", "--topic", "t", "--every", "1d", "--misfire", said]) == 2
    assert f"{said} is not once, skip, or a duration such as 1h" in " ".join(
        capsys.readouterr().err.replace("│", " ").split()
    )


def test_one_that_is_to_be_removed_has_no_dry_run(script: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedule", "rm", "daily"]) == 2
    assert capsys.readouterr().err == "tarry: say --yes to remove the schedule daily for good\n"


def test_a_timer_that_is_kept(script: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    kept = {"id": "5", "key": "k", "revision": 1, "deliver_at": TIMES[0], "state": "scheduled", "kept": True}
    script.say(Answer(200, kept))
    assert run(["timer", "set", "t", "k", "1", "--delay", "1h", "--mode", "keep"]) == 0
    assert capsys.readouterr().err == "one waits already, and is kept: nothing was set\n"


def test_the_history_tells_how_far_fire_times_were_missed(
    script: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    missed = {"fire_at": TIMES[0], "what": "missed", "at": TIMES[3], "missed_until": TIMES[3]}
    script.say(Answer(200, schedule("daily")))
    script.say(Answer(200, {"fires": [missed], "cursor": None}))
    assert run(["schedule", "show", "daily"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split("\t") == [TIMES[0], "missed", TIMES[3], "", TIMES[3]]
