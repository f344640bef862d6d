"""A recorded history of a campaign, and sixteen bugs that can be planted into it.

The history was recorded by `python -P -m tarry.bench.campaign --rows kill --dsn sqlite --nodes 1 --count 2 --seed 5
--rate 8`. A bug changes its events at one of the places where it can occur; a place is a number.
"""

import gzip
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from msgspec.json import Decoder
from msgspec.structs import replace

from tarry.bench.checker.event import Event

HISTORY = Path(__file__).parents[1] / "bench" / "history.jsonl.gz"
SECOND = 1_000_000_000
LAP = 3600 * SECOND
STRICT = ("billing", "mails")
"""Groups of the unordered topic that no operator touches."""

T = TypeVar("T")


class History:
    """The events, and lookups that the bugs share."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = tuple(events)
        self.receipts = {event.name: event for event in events if event.op == "publish" and event.phase == "ok"}
        self.meddled = {event.name for event in events if event.op in ("cancel", "reschedule")}
        self.claims = [event for event in events if event.op == "claim" and event.phase == "ok"]
        self._found: dict[str, list[Any]] = {}

    def one(self, name: str, place: int, found: Callable[[], Iterable[T]]) -> T:
        """One of the possible places for a bug, which are searched only once."""
        places: list[T] = self._found.setdefault(name, list(found()) if name not in self._found else [])
        assert places, f"the history has no place for {name}"
        return places[place % len(places)]

    def with_changes(self, *changes: tuple[Event, Event | None]) -> list[Event]:
        """The events with the first of each pair replaced by the second, or removed if that is None."""
        by_identity = {id(event): other for event, other in changes}
        changed = (by_identity.get(id(event), event) for event in self.events)
        return [event for event in changed if event is not None]


@cache
def recorded() -> History:
    """The recorded history."""
    decoder = Decoder(Event)
    return History([decoder.decode(line) for line in gzip.decompress(HISTORY.read_bytes()).splitlines()])


def _firsts(history: History) -> list[Event]:
    """First hand-outs of messages that were not cancelled or rescheduled and whose publisher got an answer."""
    return [
        claim
        for claim in history.claims
        if claim.attempt == 1
        and claim.group in STRICT
        and claim.name in history.receipts
        and claim.name not in history.meddled
    ]


def dropped(history: History, place: int) -> list[Event]:
    """A message was accepted and never seen again."""
    lasting = (claim for claim in _firsts(history) if not history.receipts[claim.name].ends_ms)
    claim = history.one("dropped", place, lambda: lasting)
    return [event for event in history.events if event.name != claim.name or event.op == "publish"]


def early(history: History, place: int) -> list[Event]:
    """A message is handed out a second early."""

    def waited(claim: Event) -> bool:
        receipt = history.receipts[claim.name]
        return receipt.due_ms - receipt.wall_ms > 1

    claim = history.one("early", place, lambda: filter(waited, _firsts(history)))
    due = history.receipts[claim.name].due_ms * 1_000_000
    return history.with_changes((claim, replace(claim, wall_ns=due - SECOND)))


def promoted_twice(history: History, place: int) -> list[Event]:
    """A message is at two offsets."""
    stream = history.one("twice", place, lambda: [e for e in history.events if e.op == "stream"])
    again = replace(stream, offset=1_000_000)
    return [*history.events[:-1], again, history.events[-1]]


def letter_lost(history: History, place: int) -> list[Event]:
    """A message failed for the last time and has no dead letter."""
    letters = [e for e in history.events if e.op == "dead" and e.group in STRICT]
    letter = history.one("letter", place, lambda: letters)
    return history.with_changes((letter, None))


def stale_ack(history: History, place: int) -> list[Event]:
    """An ack is accepted after the message was handed out again."""

    def acks() -> Iterable[Event]:
        last = {(claim.name, claim.group): claim.token for claim in history.claims}
        for ack in history.events:
            refused = ack.op == "ack" and ack.phase == "fail" and ack.reason == "lease_lost" and ack.group in STRICT
            if refused and last[ack.name, ack.group] != ack.token:
                yield ack

    ack = history.one("stale", place, acks)
    return history.with_changes((ack, replace(ack, phase="ok", reason="")))


def cancel_race(history: History, place: int) -> list[Event]:
    """A cancel succeeds though the message was promoted."""

    def late() -> list[Event]:
        return [e for e in history.events if e.op == "cancel" and e.phase == "fail" and e.reason == "too_late"]

    cancel = history.one("cancel", place, late)
    return history.with_changes((cancel, replace(cancel, phase="ok", reason="")))


def order_swapped(history: History, place: int) -> list[Event]:
    """Two messages of a key are in their claim in the wrong order."""

    def pairs() -> Iterable[tuple[Event, Event]]:
        for before, after in pairwise(history.claims):
            if before.key and (before.token, before.key) == (after.token, after.key):
                yield before, after

    before, after = history.one("order", place, pairs)
    swapped = (replace(before, place=after.place), replace(after, place=before.place))
    return history.with_changes((before, swapped[0]), (after, swapped[1]))


def one_lap_late(history: History, place: int) -> list[Event]:
    """A message is a lap late, as from a wheel that miscounts its laps."""
    claim = history.one("late", place, lambda: _firsts(history))
    return history.with_changes((claim, replace(claim, wall_ns=claim.wall_ns + LAP)))


def hole_skipped(history: History, place: int) -> list[Event]:
    """A reader skipped an offset."""

    def reads() -> list[Event]:
        last = {(e.topic, e.queue): e.offset for e in history.events if e.op == "read"}
        there = {e.name for e in history.events if e.op == "stream"}  # expired messages are not there at the end
        passed = (e for e in history.events if e.op == "read" and e.offset < last[e.topic, e.queue])
        return [e for e in passed if e.name in there]

    return history.with_changes((history.one("hole", place, reads), None))


def retry_too_many(history: History, place: int) -> list[Event]:
    """A message gets a seventeenth retry."""

    def lasts() -> list[Event]:
        return [claim for claim in history.claims if claim.attempt == 17 and claim.group in STRICT]

    last, end = history.one("retry", place, lasts), history.events[-1]
    again = replace(last, attempt=18, token=f"{last.token}-again", wall_ns=end.wall_ns, mono_ns=end.mono_ns)
    return [*history.events[:-1], again, end]


def body_truncated(history: History, place: int) -> list[Event]:
    """A body changed on its way."""
    claim = history.one("body", place, lambda: history.claims)
    return history.with_changes((claim, replace(claim, digest="00000000")))


def counter_drift(history: History, place: int) -> list[Event]:
    """A count is one too high."""

    def told() -> list[Event]:
        return [e for e in history.events if e.op == "counts" and e.group != "audit"]

    counts = history.one("counter", place, told)
    name = "acked" if counts.group else "accepted"
    return history.with_changes((counts, replace(counts, facts={**counts.facts, name: counts.facts[name] + 1})))


Plant = Callable[[History, int], list[Event]]


def past_its_end(history: History, place: int) -> list[Event]:
    """A message was handed out to a claim that was asked for after its expiry."""

    def ending() -> list[Event]:
        return [claim for claim in _firsts(history) if history.receipts[claim.name].ends_ms]

    claim = history.one("ends", place, ending)
    long_before = claim.wall_ns // 1_000_000 - 60_000
    publishes = [event for event in history.events if event.op == "publish" and event.name == claim.name]
    return history.with_changes(*((event, replace(event, ends_ms=long_before)) for event in publishes))


def ended_early(history: History, place: int) -> list[Event]:
    """A message that expires only hours later was never handed out."""

    def lasting() -> list[Event]:
        last = history.events[-1].wall_ms
        return [claim for claim in _firsts(history) if history.receipts[claim.name].ends_ms > last]

    claim = history.one("ended early", place, lasting)
    return [event for event in history.events if (event.name, event.group) != (claim.name, claim.group)]


def replaced_and_fired(history: History, place: int) -> list[Event]:
    """A timer was replaced, and its message came all the same."""

    def fired() -> list[Event]:
        seen = {event.name for event in history.events if event.op == "stream"}
        return [e for e in history.events if e.op == "replace" and e.phase == "fail" and e.name in seen]

    late = history.one("replaced", place, fired)
    return history.with_changes((late, replace(late, phase="ok")))


def _fires(history: History) -> list[Event]:
    """The fires, but for the first and last of each schedule and those that had passed when the one before fired."""
    fires = sorted((e for e in history.events if e.op == "fire"), key=lambda e: (e.facts["schedule"], e.due_ms))
    of = [fire.facts["schedule"] for fire in fires]
    within = (n for n in range(1, len(fires) - 1) if of[n - 1] == of[n] == of[n + 1])
    return [fires[n] for n in within if fires[n - 1].facts["at"] < fires[n].due_ms]


def passed_by(history: History, place: int) -> list[Event]:
    """A fire time is missing."""
    fire = history.one("passed by", place, lambda: _fires(history))
    return [event for event in history.events if event.name != fire.name]


def fired_twice(history: History, place: int) -> list[Event]:
    """A fire time has a second message."""
    sent = [fire for fire in _fires(history) if fire.phase == "ok"]
    fire = history.one("fired twice", place, lambda: sent)
    claim = next(event for event in history.claims if event.name == fire.name)
    again = replace(claim, id=f"{claim.id}1", attempt=2)
    return [*history.events[:-1], again, history.events[-1]]


PLANTS: dict[str, tuple[Plant, str]] = {
    "handed out past its end": (past_its_end, "expired"),
    "a timer replaced and fired": (replaced_and_fired, "timer"),
    "a fire time passed by": (passed_by, "fire"),
    "fired twice": (fired_twice, "written twice"),
    "one message dropped": (dropped, "lost"),
    "early by a second": (early, "early"),
    "promoted twice": (promoted_twice, "promoted twice"),
    "dead letter lost": (letter_lost, "dead letter"),
    "stale ack accepted": (stale_ack, "stale ack"),
    "cancel race": (cancel_race, "cancel"),
    "order swapped": (order_swapped, "order"),
    "one lap late": (one_lap_late, "late"),
    "hole skipped": (hole_skipped, "skipped"),
    "17th retry": (retry_too_many, "retries"),
    "body truncated": (body_truncated, "body"),
    "counter drift": (counter_drift, "counters"),
}
"""The bugs by name, each with the kind of violation that it must cause."""
