"""Outages of the store: counts its failures, and logs when it goes away, a few reminders meanwhile, and when it is
back.

While the store is away, everything that asks it fails, over and over. So each transaction is watched here, and callers
that failed report it to the debug log alone (`tell_failure`). A step that fails although the store is there is a
`Trouble`.
"""

import itertools
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import structlog
import trio

from ..store.errors import (
    Contention,
    Denied,
    DuplicateKey,
    Foreign,
    Full,
    OutcomeUnknown,
    ReadOnly,
    StoreError,
    Unavailable,
    Unfit,
)
from ..store.store import Kind

_REMIND = 10.0
"""Seconds until the first reminder of an outage, and twice as long to each next one; for a `Trouble`, between two
lines."""

log = structlog.get_logger()


def tell_failure(event: str, error: Exception, **facts: Any) -> None:
    """Logs a warning, or a debug line if the store was away, since an outage has its own lines."""
    say = log.debug if isinstance(error, Unavailable) else log.warning
    say(event, error=str(error), **facts)


def why_away(error: StoreError) -> str:
    """Why the store is away, in words for callers: the drivers' own texts name hosts, tables and statements, and are
    for the log."""
    if isinstance(error, ReadOnly):
        return "the store is read-only: another server of it takes the writes soon, or this one does again"
    if isinstance(error, Unfit):
        setting = error.setting or "the database refuses this by a setting, a right or a table of its own"
        return f"{setting}: the log and `tarry doctor` tell more"
    if isinstance(error, Foreign):
        return "the server of the database that takes writes has another one: the log and `tarry doctor` name it"
    if isinstance(error, Full) and error.quota is not None:
        return f"{error.quota} of Tarry's user of the database is used up: wait for the hour to end, or raise it"
    if isinstance(error, Full):
        return (
            "the store lets in no more sessions: give it more max_connections, or have fewer servers and processes;"
            " `tarry doctor` counts them"
        )
    return "the store is away or takes no writes"


class Trouble:
    """Logs the failures of a step that is repeated and fails although the store is there: at once, then every ten
    seconds at the most with the number of failures since, and once when the step works again, with the number in all.
    Failures because the store is away are not counted here."""

    def __init__(
        self, monotonic: Callable[[], float], *, failed: str = "round_failed", well: str = "round_well", **facts: str
    ) -> None:
        """`failed` and `well` are the names of the two log events, which carry these `facts`."""
        self._facts = facts
        self._events = failed, well
        self._monotonic = monotonic
        self._since: float | None = None
        """When it began to fail; None while it is well."""
        self._failures = 0
        """Failures since the last line in the log."""
        self._failures_in_all = 0
        """Failures since it began to fail."""
        self._quiet_until = float("-inf")
        self._is_told = False
        """Whether the log has said that it fails."""

    @contextmanager
    def survived(self) -> Generator[None, None, None]:
        """Wraps the step: catches and logs the errors of the store."""
        try:
            yield
        except Unavailable as error:  # the store is away, which has its own lines
            tell_failure(self._events[0], error, **self._facts)
        except StoreError as error:
            self._failed(error)
        else:
            self._went_well()

    def _failed(self, error: StoreError) -> None:
        now = self._monotonic()
        self._since = now if self._since is None else self._since
        self._failures += 1
        self._failures_in_all += 1
        if now >= self._quiet_until:
            log.warning(self._events[0], error=str(error), **self._facts, failures=self._failures)
            self._quiet_until, self._failures, self._is_told = now + _REMIND, 0, True

    def _went_well(self) -> None:
        if self._is_told and self._since is not None:
            seconds = round(self._monotonic() - self._since, 1)
            log.info(self._events[1], **self._facts, seconds=seconds, failures=self._failures_in_all)
        self._since, self._is_told, self._failures_in_all = None, False, 0


class Outage:
    """Whether the store is away and since when, and whether it takes writes; `WriteProbe` acts on the latter. Counts
    the store's failures by the names of their errors."""

    def __init__(self, count: Callable[[str], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._monotonic = monotonic
        self._failing: set[Kind] = set()
        self._since = 0.0
        self._remind_at = 0.0
        self._failures = 0
        self._numbers = itertools.count()
        self._writing: dict[int, float] = {}
        """When each write that is under way began, the oldest first."""
        self.written_at = float("-inf")
        """When the store last accepted a write."""
        self.refused: StoreError | None = None
        """Why the store refused a write; stays until a rehearsal succeeds."""
        self.doubted = False
        """A write has failed, and it is not known whether only that write fails or every one."""
        self.hurry = trio.Event()
        """Set when a write was refused, or has failed such that a rehearsal should follow at once."""

    @property
    def standing(self) -> float:
        """Seconds for which the oldest write under way has had no answer."""
        return max(0.0, self._monotonic() - next(iter(self._writing.values()), float("inf")))

    def stands(self) -> None:
        """Counts one more second in which a write has had no answer for too long."""
        self._count("Standing")

    def refuse(self, error: StoreError) -> None:
        """Notes that a write was refused, and that any other would have been."""
        self.refused = error
        self.hurry.set()

    def doubt(self, *, soon: bool) -> None:
        """Notes that a write failed although others may succeed. `soon`: it fails until an operator changes something,
        so it is rehearsed at once: waiting would show no more."""
        self.doubted = True
        if soon:
            self.hurry.set()

    def rehearsed(self, before: StoreError | None) -> None:
        """Notes that a rehearsal succeeded: the store accepted everything that a publish writes. `before` is the value
        of `refused` when the rehearsal began."""
        if self.refused is before:
            self.refused = None
            self.answered("write")

    def failed(self, kind: Kind, error: Unavailable) -> None:
        """Notes that a transaction failed because the store is away."""
        now = self._monotonic()
        if not self._failing:
            self._since, self._remind_at, self._failures = now, now + _REMIND, 0
            log.warning("store_away", error=str(error), code=error.code)
        elif now >= self._remind_at:
            away = now - self._since
            self._remind_at = self._since + 2 * away
            log.warning("store_still_away", seconds=round(away, 1), failures=self._failures, error=str(error))
        self._failing.add(kind)
        self._failures += 1

    def answered(self, kind: Kind) -> None:
        """Notes that a transaction succeeded. A read says nothing about writes: with a full disk everything can still
        be read."""
        if kind == "write":
            self.written_at = self._monotonic()
        if self.refused is not None:
            return  # some writes may succeed while others fail: only a rehearsal can tell
        if kind in self._failing or (self._failing and kind == "write"):
            self._failing.clear()
            seconds = round(self._monotonic() - self._since, 1)
            log.info("store_back", seconds=seconds, failures=self._failures)

    @contextmanager
    def watch(self, kind: Kind) -> Generator[None, None, None]:
        number = next(self._numbers)
        if kind == "write":
            self._writing[number] = self._monotonic()
        try:
            yield
        except DuplicateKey:  # nothing is wrong: the caller repeats it under another key
            raise
        except StoreError as error:
            self._count(type(error).__name__)
            if isinstance(error, OutcomeUnknown):
                log.warning("outcome_unknown", error=str(error), code=error.code)
            if isinstance(error, Unavailable):
                self.failed(kind, error)
            if kind == "write" and isinstance(error, Unavailable | Denied):
                self.refuse(error)
            elif kind == "write" and isinstance(error, Contention | Unfit):
                self.doubt(soon=isinstance(error, Unfit))
            raise
        finally:
            self._writing.pop(number, None)
        self.answered(kind)
