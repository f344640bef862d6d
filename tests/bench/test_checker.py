"""The checker: a true history passes, and each of sixteen planted bugs is caught wherever it is planted."""

import itertools
import json
import os
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

from support.benches import bench
from support.effort import examples, full
from support.planted import PLANTS, ended_early, recorded
from tarry.bench.checker.clocks import Clocks
from tarry.bench.checker.event import Event, read
from tarry.bench.checker.report import check
from tarry.service.demo.server_process import python_path


def test_a_true_history_passes() -> None:
    report = check(recorded().events)
    assert report.violations == []
    figures = report.figures
    assert figures["messages"] > 100
    assert figures["deliveries"] > figures["messages"]
    assert figures["faults"]
    assert figures["cancelled"] > 0
    assert figures["dead"] > 0
    assert figures["replaced"] > 0
    assert figures["ends"] > 0
    assert figures["fires"] > 4
    assert {"fail", "lost lease"} <= figures["explained"].keys()


@pytest.mark.parametrize(("told", "kinds"), [(True, {}), (False, {"counters": 1})])
def test_a_fire_that_a_pause_cancels_is_counted_as_told(kinds: dict[str, int], *, told: bool) -> None:
    events = list(recorded().events)
    fires = [event for event in events if event.op == "fire"]
    last = max(fires, key=lambda fire: fire.due_ms)
    (made,) = [
        e for e in events if e.op == "schedule" and not e.reason and e.facts["schedule"] == last.facts["schedule"]
    ]
    due = last.due_ms + made.facts["every"]
    cancelled = replace(
        last,
        phase="fail",
        reason="cancelled",
        name=f"{last.facts['schedule']}@{due}",
        id="1",
        due_ms=due,
        facts=last.facts | {"at": max(due, last.facts["at"])},
    )
    changed: list[Event] = []
    for event in events:
        if event.op == "counts" and event.topic == last.topic and not event.group:
            more = {name: event.facts[name] + 1 for name in ("accepted", "cancelled")}
            event = replace(event, facts=event.facts | more)
        changed += [event, cancelled] if told and event is last else [event]
    assert check(changed).figures["kinds"] == kinds


@full
@pytest.mark.parametrize("plant", PLANTS)
@given(place=st.integers(0, 10_000))
@settings(max_examples=examples(2, 5), deadline=None, phases=(Phase.explicit, Phase.generate))
def test_a_planted_bug_is_caught(plant: str, place: int) -> None:
    change, kind = PLANTS[plant]
    report = check(change(recorded(), place))
    assert kind in report.figures["kinds"], report.figures
    assert any(violation.events for violation in report.violations)


def test_an_ack_without_an_answer_excuses_nothing_in_a_claim_that_has_the_message() -> None:
    """At this place the first of the two was acked in an earlier claim that died with its node."""
    swapped = PLANTS["order swapped"][0](recorded(), 0)
    doubtful = {event.name for event in swapped if event.op == "ack" and event.phase == "unknown" and event.name}
    (violation,) = check(swapped).violations
    assert violation.kind == "order"
    assert doubtful & {event.name for event in violation.events}


def test_there_are_sixteen() -> None:
    assert len(PLANTS) == 16
    assert len({kind for _, kind in PLANTS.values()}) == 16


@full
@given(place=st.integers(0, 10_000))
@settings(max_examples=examples(2, 5), deadline=None, phases=(Phase.explicit, Phase.generate))
def test_what_ends_before_its_end_is_lost(place: int) -> None:
    """Seventeen: it shows as the first of them does."""
    assert "lost" in check(ended_early(recorded(), place)).figures["kinds"]


@pytest.mark.parametrize(("rest_ms", "kinds"), [(30_000, {"lost": 1}), (90_000, {})])
@pytest.mark.parametrize("answered", [True, False])
def test_what_would_come_back_past_its_end_has_come_to_it(
    rest_ms: int, kinds: dict[str, int], *, answered: bool
) -> None:
    """The history ends before: a group is done with it as it fails."""
    begun_ms = 1_000_000_000

    def failed(event: Event) -> Event:
        if event.op == "publish":
            return replace(event, ends_ms=begun_ms + 60_000)
        if event.op == "claim":
            return replace(event, due_ms=begun_ms + 15_000)
        if event.op == "ack":
            lost = event.phase == "ok" and not answered
            return replace(event, op="fail", rest_ms=rest_ms, phase="unknown" if lost else event.phase)
        return event

    history = [failed(event) for event in simple(1)]
    assert check(history).figures["kinds"] == kinds
    if not kinds:  # and the group counts it
        assert check([*history, told(expired=1)]).violations == []
        assert check([*history, told(expired=0)]).figures["kinds"] == {"counters": 1}


def told(expired: int) -> Event:
    """What the group of a simple history tells in the end, whose one message expired or is nowhere to be found."""
    names = ("acked", "retried", "dead", "claimed", "skipped")
    queues = {"queues": [{"offset": expired}], "retry_queues": []}
    facts = dict.fromkeys(names, 0) | {"expired": expired} | queues
    return Event("counts", "ok", 0, 0, topic="t", group="g", facts=facts)


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

    def without_an_answer(event: Event) -> Event:
        doubtful = event.name == "m1" and event.op in ("publish", "ack") and event.phase == "ok"
        return replace(event, phase="unknown", id="") if doubtful else event

    assert check(map(without_an_answer, simple(3))).violations == []


@pytest.mark.parametrize(
    ("ordered", "key", "again_ms", "kinds"),
    [
        (True, "k", 150, {}),
        (True, "k", 90, {"rung": 1}),
        (True, "j", 150, {"duplicate": 1, "rung": 1}),
        (False, "k", 150, {"duplicate": 1, "rung": 1}),
    ],
    ids=["parked", "before its rung", "another key", "no order"],
)
def test_a_parked_message_may_have_been_handed_out_unheard(
    key: str, again_ms: int, kinds: dict[str, int], *, ordered: bool
) -> None:
    """Two messages of a key, one claim: the first fails, the second is parked. It comes again as the same attempt, in
    an answer that is lost, and when that lease is over as the next attempt."""
    begun_ms = 1_000_000_000

    def at(ms: int, op: str, name: str = "", phase: str = "ok", **rest: Any) -> Event:
        ns = (begun_ms + ms) * 1_000_000
        key_of = {"m0": "k", "m1": key}
        return Event(op, phase, ns, ns, name=name, id=name, topic="t", key=key_of.get(name, ""), digest="d", **rest)

    def settled(ms: int, op: str, call: int, name: str, token: str, **rest: Any) -> list[Event]:
        return [at(ms, op, name, phase, call=call, group="g", token=token, **rest) for phase in ("invoke", "ok")]

    def claimed(ms: int, name: str, attempt: int, token: str) -> Event:
        offset = place = int(name[1])
        held: dict[str, Any] = {"group": "g", "token": token, "place": place, "due_ms": begun_ms + 10_000}
        return at(ms, "claim", name, attempt=attempt, seq=offset + 1, queue=0, offset=offset, **held)

    history = [
        at(0, "setup", facts={"topics": {"t": {"groups": {"g": {"ladder": [100]}}, "ordered": ordered}}}),
        *(at(1, "publish", f"m{n}", phase, call=n + 1, seq=n + 1) for n in (0, 1) for phase in ("invoke", "ok")),
        claimed(5, "m0", 1, "a"),
        claimed(5, "m1", 1, "a"),
        *settled(10, "fail", 3, "m0", "a", rest_ms=20),
        claimed(31, "m0", 2, "b"),
        *settled(32, "ack", 4, "m0", "b"),
        claimed(again_ms, "m1", 2, "c"),
        *settled(again_ms + 1, "ack", 5, "m1", "c"),
        *(at(200, "stream", f"m{n}", queue=0, offset=n) for n in (0, 1)),
        at(300, "drained"),
    ]
    assert check(history).figures["kinds"] == kinds


def test_the_checker_knows_nothing_of_tarry() -> None:
    source = "import sys, tarry.bench.checker.report as r; print(*(m for m in sys.modules if m.startswith('tarry')))"
    said = subprocess.check_output([sys.executable, "-P", "-c", source], env=os.environ | python_path(), text=True)
    loaded = set(said.split())
    assert {name for name in loaded if not name.startswith("tarry.bench.checker")} == {"tarry", "tarry.bench"}


def test_from_the_command_line(tmp_path: Path) -> None:
    """A line that is torn off, as by a kill of the harness, is left out."""
    history = tmp_path / "history.jsonl"
    history.write_bytes(b"".join(encode(event) + b"\n" for event in simple(5, dropped=2)) + b'{"op":"cl')
    assert len(list(read(history))) == len(list(simple(5, dropped=2)))
    done = bench("checker", str(history))
    assert done.returncode == 1
    figures, *told = done.stdout.splitlines()
    assert json.loads(figures)["lost"] == 2
    assert "lost: m2" in told[0]


HOUR = 3_600_000


def stepped(ahead_ms: int, *, begin: float, end: float) -> list[Event]:
    """The store's clock is set between two moments, in seconds."""
    facts = {"ahead_ms": ahead_ms}
    return [
        Event("fault", phase, int(at * 1e9), int(at * 1e9), facts=facts)
        for phase, at in (("invoke", begin), ("ok", end))
    ]


def clocks(*steps: Event) -> Clocks:
    found = Clocks()
    for event in steps:
        found.add(event)
    return found


def test_a_clock_that_nobody_sets_is_the_harness_s() -> None:
    assert clocks(*stepped_nothing()).most(5, 9) == 9
    assert clocks().least(9) == 9
    assert clocks().reached(7, 9) == 7
    assert clocks().reached(12, 9) == 9


def stepped_nothing() -> list[Event]:
    return [Event("fault", "invoke", 1, 1, reason="kill"), Event("fault", "ok", 2, 2, reason="kill")]


def test_a_clock_that_is_set_may_be_either_until_all_follow() -> None:
    ahead = clocks(*stepped(HOUR, begin=100, end=110))
    assert ahead.most(0, 99_999) == ahead.least(99_999) == 99_999
    assert ahead.most(0, 105_000) == 105_000 + HOUR
    assert ahead.least(105_000) == 105_000
    assert ahead.least(110_001) == 110_001 + HOUR
    back = clocks(*stepped(HOUR, begin=100, end=110), *stepped(0, begin=200, end=210))
    assert back.least(200_000) == 200_000
    assert back.most(0, 300_000) == 210_000 + HOUR, "it has shown it before"
    assert back.most(250_000, 300_000) == 300_000


def test_when_a_clock_that_is_set_has_reached_a_time() -> None:
    """Set an hour ahead, back, and ahead again."""
    there = clocks(
        *stepped(HOUR, begin=100, end=110), *stepped(0, begin=200, end=210), *stepped(HOUR, begin=300, end=310)
    )
    assert there.reached(50_000, 99_000) == 50_000
    assert there.reached(110_000 + HOUR, 150_000) == 110_000
    assert there.reached(HOUR, 150_000) == 110_000, "by the step"
    assert there.reached(HOUR, 250_000) == 250_000, "not again so far"
    assert there.reached(HOUR, 400_000) == 310_000, "by the last step"
    assert there.reached(350_000 + HOUR, 400_000) == 350_000


@pytest.mark.parametrize(("step", "kinds"), [(0, {"early": 1}), (2000, {}), (500, {"early": 1})])
def test_the_clock_of_the_store_says_what_is_early(step: int, kinds: dict[str, int]) -> None:
    """A message comes a second before its time: by a clock that was set two seconds ahead it is due."""
    setup, *events = simple(1)
    (claimed,) = [event for event in events if event.op == "claim"]
    due = round(claimed.wall_ms) + 1000
    early = [replace(e, due_ms=due) if e.op == "publish" else e for e in events]
    at = claimed.wall_ns / 1e9 - 1e-6
    steps = stepped(step, begin=at, end=at)
    history = [setup, *sorted([*early, *steps], key=lambda event: event.wall_ns)]
    assert check(history).figures["kinds"] == kinds
