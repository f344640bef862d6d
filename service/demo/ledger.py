"""The demo's ledger: what was promised for each flight, what was observed, and whether the two agree.

It never asks the server: the server's own figures are compared with the ledger, not used in it. Times are Unix ms.
"""

import threading
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil
from typing import Literal

from attrs import define, field, frozen

from .flights import Flight

Fate = Literal["planned", "rescheduled", "reschedule_too_late", "cancelled", "cancel_too_late"]

_ROUNDING = 1
"""A message may be due up to this many milliseconds after the time computed here, never before."""


@frozen
class Sighting:
    """One hand-out of the message to a handler."""

    attempt: int
    at: int
    deliver_at: int
    failed: bool


@define
class Entry:
    flight: Flight
    id: str
    due: int
    fails: int
    """How many attempts fail: 0, a few, or all that the ladder allows."""
    fate: Fate = "planned"
    sightings: list[Sighting] = field(factory=list[Sighting])

    @property
    def handled(self) -> int:
        return sum(not sighting.failed for sighting in self.sightings)


@frozen
class Lateness:
    """The lateness of first hand-outs, in milliseconds."""

    count: int
    p50: int
    p99: int
    max: int

    @classmethod
    def of(cls, values: Iterable[int]) -> "Lateness":
        """Computes the percentiles by nearest rank."""
        ordered = sorted(values)

        def rank(share: float) -> int:
            return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0

        return cls(len(ordered), rank(0.5), rank(0.99), rank(1.0))


class Ledger:
    """All entries, by message id. Several threads write to it."""

    def __init__(self, entries: Iterable[Entry], rungs: Sequence[int]) -> None:
        self._lock = threading.Lock()
        self._entries = {entry.id: entry for entry in entries}
        self._rungs = tuple(rungs)
        self._complaints: list[str] = []
        self._buried: list[str] = []

    @property
    def entries(self) -> list[Entry]:
        """The entries, in the order of the planned departures."""
        return list(self._entries.values())

    def see(self, id_: str, attempt: int, at: int, deliver_at: int) -> bool:
        """Notes a hand-out; returns whether this attempt is to fail."""
        with self._lock:
            entry = self._entries.get(id_)
            if entry is None:
                self._complaints.append(f"a message that nobody published was handed out: {id_}")
                return False
            failed = attempt <= entry.fails
            entry.sightings.append(Sighting(attempt, at, deliver_at, failed))
            return failed

    def complain(self, fault: str) -> None:
        with self._lock:
            self._complaints.append(fault)

    def bury(self, ids: Iterable[str]) -> None:
        """Notes the server's dead letters: all of them, once, at the end."""
        self._buried = list(ids)

    def dies(self, entry: Entry) -> bool:
        """Whether the message fails on every rung and becomes a dead letter."""
        return entry.fails > len(self._rungs)

    def open(self) -> int:
        """How many flights have not been seen to end."""
        with self._lock:
            return sum(not self._over(entry) for entry in self._entries.values())

    def _over(self, entry: Entry) -> bool:
        if entry.fate == "cancelled":
            return True
        if self.dies(entry):
            # The last attempt may have been lost with a lease, unseen.
            return entry.id in self._buried or any(s.attempt > len(self._rungs) for s in entry.sightings)
        return entry.handled > 0

    def counts(self) -> dict[str, int]:
        entries = self.entries
        dead = [entry for entry in entries if self.dies(entry) and entry.fate != "cancelled" and self._over(entry)]
        return {
            "published": len(entries),
            "rescheduled": sum(entry.fate == "rescheduled" for entry in entries),
            "delivered": sum(entry.handled > 0 for entry in entries),
            "cancelled": sum(entry.fate == "cancelled" for entry in entries),
            "retried": sum(sighting.failed for entry in entries for sighting in entry.sightings) - len(dead),
            "dead": len(dead),
            "too_late": sum(entry.fate in ("reschedule_too_late", "cancel_too_late") for entry in entries),
            "redelivered": sum(max(0, entry.handled - 1) for entry in entries),
            "early": len(self.early()),
            "lost": sum(not self._over(entry) for entry in entries),
        }

    def early(self) -> list[str]:
        """Messages handed out before their time, be it the due time or the end of a retry's rung; one sentence each."""
        faults: list[str] = []
        for entry in self.entries:
            for number, sighting in enumerate(entry.sightings):
                if number == 0 and sighting.at < entry.due:
                    faults.append(f"{entry.flight.key}: handed out {entry.due - sighting.at} ms early")
                before = entry.sightings[number - 1] if number else None
                if before is not None and before.failed and sighting.attempt == before.attempt + 1:
                    early = self._rungs[before.attempt - 1] - (sighting.at - before.at)
                    if early > 0:
                        faults.append(f"{entry.flight.key}: attempt {sighting.attempt} came {early} ms early")
        return faults

    def lateness(self, apart: tuple[int, int]) -> tuple[Lateness, Lateness]:
        """The lateness of messages due outside the time span `apart`, and of those within it."""
        outside: list[int] = []
        within: list[int] = []
        for entry in self.entries:
            if entry.sightings:
                late = entry.sightings[0].at - entry.due
                (within if apart[0] <= entry.due <= apart[1] else outside).append(late)
        return Lateness.of(outside), Lateness.of(within)

    def faults(self, doubtful_until: int = 0) -> list[str]:
        """Everything that is not as promised, one sentence each.

        A message that a handler got before `doubtful_until`, in Unix milliseconds, may come again as the same attempt:
        its claim may come from the killed server, and the note that the attempt had begun was lost with it.
        """
        faults = [*self._complaints, *self.early()]
        for entry in self.entries:
            found = self._examine(entry, self._buried.count(entry.id), doubtful_until)
            faults += (f"{entry.flight.key}: {fault}" for fault in found)
        strange = [id_ for id_ in self._buried if id_ not in self._entries]
        return faults + [f"a dead letter that nobody published: {id_}" for id_ in strange]

    def _examine(self, entry: Entry, buried: int, doubtful_until: int) -> Iterable[str]:
        if entry.fate == "cancelled":
            if entry.sightings:
                yield f"cancelled, and handed out {len(entry.sightings)} times"
            if buried:
                yield "cancelled, and among the dead letters"
            return
        if not self._over(entry):
            yield f"lost: seen {len(entry.sightings)} times, and its end was not"
        if buried != int(self.dies(entry)):
            yield f"{buried} times among the dead letters, not {int(self.dies(entry))}"
        attempts = [sighting.attempt for sighting in entry.sightings]
        if any(
            later.attempt < sooner.attempt + (sooner.failed or sooner.at >= doubtful_until)
            for sooner, later in pairwise(entry.sightings)
        ):
            yield f"an attempt was handed out twice: {attempts}"
        for sighting in entry.sightings:
            if not 0 <= sighting.deliver_at - entry.due <= _ROUNDING:
                yield f"handed out as due at {sighting.deliver_at}, not {entry.due}"
