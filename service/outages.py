"""Failures of the store, counted once; its absences are in the log: a line when it goes, a few while it is away, and
one when it is back, with how long it took.

All that asks the store fails while it is away, over and over. So each transaction is watched here, and those who failed
say it to the debugging log alone (`tell_failure`). A step that fails by itself is a `Trouble`.
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
"""Seconds until the first reminder; of an absence it is twice as long to each next one."""

log = structlog.get_logger()


def tell_failure(event: str, error: Exception, **facts: Any) -> None:
    """A warning; unless the store was away, which has its own lines."""
    say = log.debug if isinstance(error, Unavailable) else log.warning
    say(event, error=str(error), **facts)


def why_away(error: StoreError) -> str:
    """For whoever asks: the texts of drivers name hosts, tables and statements, and are for the log."""
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
    """A step that is taken over and over and fails though the store is there: in the log at once, then every ten
    seconds at the most with how often it was by then; and once when it is well again, with how often in all. While the
    store is away, and fails it so, it says no more than that it goes on."""

    def __init__(
        self, monotonic: Callable[[], float], *, failed: str = "round_failed", well: str = "round_well", **facts: str
    ) -> None:
        """`failed` and `well` are what the log calls it, with these `facts`."""
        self._facts = facts
        self._events = failed, well
        self._monotonic = monotonic
        self._since: float | None = None
        """When it began to fail; None while it is well."""
        self._failures = 0
        """Since the last line."""
        self._failures_in_all = 0
        """Since it began to fail."""
        self._quiet_until = float("-inf")
        self._is_told = False
        """Whether the log says that it fails."""

    @contextmanager
    def survived(self) -> Generator[None, None, None]:
        """Around the step: what the store says no with ends here."""
        try:
            yield
        except Unavailable as error:  # it is away, and all that ask it fail
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
    """Whether the store is away, and since when; its failures are counted by their names. And whether it takes writes:
    what is done about that is `WriteProbe`'s."""

    def __init__(self, count: Callable[[str], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._monotonic = monotonic
        self._failing: set[Kind] = set()
        self._since = 0.0
        self._remind_at = 0.0
        self._failures = 0
        self._numbers = itertools.count()
        self._writing: dict[int, float] = {}
        """Writes that are under way, the oldest first, and since when."""
        self.written_at = float("-inf")
        """When a write was last taken."""
        self.refused: StoreError | None = None
        """Why one was not. It stays until a rehearsal was taken."""
        self.doubted = False
        """A write has failed since that may be its caller's matter, or everybody's."""
        self.hurry = trio.Event()
        """One was refused since, or is worth a rehearsal at once."""

    @property
    def standing(self) -> float:
        """For how many seconds the oldest write that is under way has had no answer."""
        return max(0.0, self._monotonic() - next(iter(self._writing.values()), float("inf")))

    def stands(self) -> None:
        """One more second in which a write has stood too long."""
        self._count("Standing")

    def refuse(self, error: StoreError) -> None:
        """A write was not taken, and no other would have been."""
        self.refused = error
        self.hurry.set()

    def doubt(self, *, soon: bool) -> None:
        """A write was not taken, and others may be. `soon`: it fails until somebody changes something, so that waiting
        shows no more."""
        self.doubted = True
        if soon:
            self.hurry.set()

    def rehearsed(self, before: StoreError | None) -> None:
        """All that a publish writes was taken; `before` is why one was refused when that began."""
        if self.refused is before:
            self.refused = None
            self.answered("write")

    def failed(self, kind: Kind, error: Unavailable) -> None:
        """A transaction could not be had."""
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
        """A transaction was had. A full disk lets all be read: that it can be read says nothing of writing."""
        if kind == "write":
            self.written_at = self._monotonic()
        if self.refused is not None:
            return  # where some writes are taken others are not: a rehearsal tells
        if kind in self._failing or (self._failing and kind == "write"):
            self._failing.clear()
            seconds = round(self._monotonic() - self._since, 1)
            log.info("store_back", seconds=seconds, failures=self._failures)

    @contextmanager
    def watch(self, kind: Kind) -> Generator[None, None, None]:
        """Around a transaction, or another question to the database."""
        number = next(self._numbers)
        if kind == "write":
            self._writing[number] = self._monotonic()
        try:
            yield
        except DuplicateKey:  # nothing is wrong: the same is done under another
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
