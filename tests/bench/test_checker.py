"""The checker: a true history passes, and each of twelve planted bugs is caught wherever it is planted."""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.json import encode
from msgspec.structs import replace

from support.planted import PLANTS, recorded
from tarry.bench.checker.event import Event, read
from tarry.bench.checker.report import check

ROOT = Path(__file__).resolve().parents[2]


def test_a_true_history_passes() -> None:
    report = check(recorded().events)
    assert report.violations == []
    figures = report.figures
    assert figures["messages"] > 100
    assert figures["deliveries"] > figures["messages"]
    assert figures["faults"]
    assert figures["cancelled"] > 0
    assert figures["dead"] > 0
    assert {"fail", "lost lease"} <= figures["explained"].keys()


@pytest.mark.parametrize("plant", PLANTS)
@given(place=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None, phases=(Phase.explicit, Phase.generate))
def test_a_planted_bug_is_caught(plant: str, place: int) -> None:
    change, kind = PLANTS[plant]
    report = check(change(recorded(), place))
    assert kind in report.figures["kinds"], report.figures
    assert any(violation.events for violation in report.violations)


def test_there_are_twelve() -> None:
    assert len(PLANTS) == 12
    assert len({kind for _, kind in PLANTS.values()}) == 12


def simple(messages: int, dropped: int = -1) -> Iterator[Event]:
    """A history of so many messages, each published, claimed and acked; one of them is not."""
    ticks = itertools.count(1_000_000_000_000_000, 1000)

    def event(op: str, phase: str = "ok", **rest: Any) -> Event:
        now = next(ticks)
        return Event(op, phase, now, now, **rest)

    group = {"ladder": [100]}
    yield event("setup", facts={"topics": {"t": {"groups": {"g": group}}}})
    there = 0
    for n in range(messages):
        names: dict[str, Any] = {"call": n + 1, "name": f"m{n}", "topic": "t"}
        yield event("publish", "invoke", **names, digest="d")
        yield event("publish", **names, id=str(n), digest="d")
        if n == dropped:
            continue
        held = names | {"group": "g", "token": str(n), "id": str(n)}
        place: dict[str, Any] = {"queue": 0, "offset": there, "digest": "d"}
        yield event("claim", **held, attempt=1, due_ms=2_000_000_000_000, **place)
        yield event("ack", "invoke", **held)
        yield event("ack", **held)
        yield event("stream", **names, id=str(n), **place)
        there += 1
    yield event("drained")


@pytest.mark.parametrize("messages", [5_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_one_of_many_is_missed(messages: int) -> None:
    report = check(simple(messages, dropped=messages // 3))
    assert {violation.kind for violation in report.violations} == {"lost"}
    assert all(f"m{messages // 3}" in violation.what for violation in report.violations)
    assert report.figures["messages"] == messages


def test_a_history_that_was_not_drained_is_no_good() -> None:
    *events, _ = simple(3)
    assert check(events).figures["kinds"] == {"stuck": 1}


def test_an_outage_makes_nobody_late() -> None:
    """A message comes two minutes after its time: with the database away for most of them it may."""
    setup, *events = simple(1)
    first = events[0]
    minute = 60_000_000_000
    late = [replace(e, wall_ns=e.wall_ns + 2 * minute) if e.op == "claim" else e for e in events]
    assert check([setup, *late]).figures["kinds"] == {"late": 1}
    down = Event("fault", "invoke", first.wall_ns, first.mono_ns)
    up = Event("fault", "ok", first.wall_ns + minute + minute // 2, first.mono_ns)
    assert check([setup, down, up, *late]).violations == []


def test_what_nobody_can_tell_is_no_violation() -> None:
    """The answers to a publish, an ack and a cancel were lost."""
    events = list(simple(3))
    doubtful = [
        Event(
            e.op, "unknown", e.wall_ns, e.mono_ns, call=e.call, name=e.name, topic=e.topic, token=e.token, group=e.group
        )
        if e.name == "m1" and e.op in ("publish", "ack") and e.phase == "ok"
        else e
        for e in events
    ]
    assert check(doubtful).violations == []


def test_the_checker_knows_nothing_of_tarry() -> None:
    source = "import sys, tarry.bench.checker.report as r; print(*(m for m in sys.modules if m.startswith('tarry')))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", source],
        env={"PYTHONPATH": str(ROOT / ".tree")},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert {name for name in loaded if not name.startswith("tarry.bench.checker")} == {"tarry", "tarry.bench"}


def test_from_the_command_line(tmp_path: Path) -> None:
    """A line that is torn off, as by a kill of the harness, is left out."""
    history = tmp_path / "history.jsonl"
    history.write_bytes(b"".join(encode(event) + b"\n" for event in simple(5, dropped=2)) + b'{"op":"cl')
    assert len(list(read(history))) == len(list(simple(5, dropped=2)))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tarry.bench.checker", str(history)],
        env={"PYTHONPATH": str(ROOT / ".tree")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    figures, *told = done.stdout.splitlines()
    assert json.loads(figures)["lost"] == 2
    assert "lost: m2" in told[0]
