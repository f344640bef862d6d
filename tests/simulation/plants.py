"""Planted bugs that only certain interleavings show: two nodes at once, a lost answer, a death in between. Each breaks
one rule of the engine, and is patched in only for its test.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from attrs import evolve, frozen
from msgspec.structs import replace

from simulation.database import Backend
from tarry.service.clock import Clock
from tarry.service.engine.consume.liveness import Liveness
from tarry.service.engine.dispatch.sweeps import Sweeps
from tarry.service.engine.publish.intake import Intake
from tarry.store.errors import OutcomeUnknown, Unavailable
from tarry.store.groups.settling import Settling
from tarry.store.ports import Transaction
from tarry.store.records import Outcome, Publication, Verdict
from tarry.store.store import Store


@frozen
class Plant:
    kinds: tuple[str, ...]
    """The kinds of violations that can show it, one of which is enough."""
    changes: tuple[tuple[Any, str, Callable[[Any], Any]], ...]
    """(owner, attribute, function from the right implementation to the wrong one)."""

    @contextmanager
    def planted(self) -> Generator[None, None, None]:
        with ExitStack() as stack:
            for owner, name, wrong in self.changes:
                stack.enter_context(patch.object(owner, name, wrong(getattr(owner, name))))
            yield


def _again(right: Any) -> Any:
    """Repeats a transaction whose outcome is unknown."""

    async def write(self: Store, work: Any) -> Any:
        try:
            return await right(self, work)
        except OutcomeUnknown:
            return await right(self, work)

    return write


def _denied(right: Any) -> Any:
    """Reports a transaction whose outcome is unknown as not done."""

    async def write(self: Store, work: Any) -> Any:
        try:
            return await right(self, work)
        except OutcomeUnknown as error:
            raise Unavailable(str(error)) from error

    return write


def _believed(kind: str) -> Callable[[Any], Any]:
    """Believes in a lost COMMIT, for transactions with this type of result."""

    def wrong(right: Any) -> Any:
        async def write(self: Backend, work: Any, *, heavy: bool = False) -> Any:
            kept: list[Any] = []

            async def keep(tx: Transaction) -> Any:
                kept[:] = [await work(tx)]
                return kept[0]

            try:
                return await right(self, keep, heavy=heavy)
            except OutcomeUnknown:
                if kept and type(kept[0]).__name__ == kind:
                    return kept[0]
                raise

        return write

    return wrong


def _as_of_the_question(right: Any) -> Any:
    """Dates a sample of the clock from the question, not from the answer."""

    async def take(self: Clock) -> None:
        asked = self._monotonic()
        await right(self)
        if self._lead is not None:
            self._lead += self._monotonic() - asked

    return take


def _never(_right: Any) -> Any:
    """Never looks for entries of other nodes."""

    async def nothing(*_: object) -> None: ...

    return nothing


def _own_memory(_right: Any) -> Any:
    """Takes a client for dead if this node has not heard from it, even if another node has."""

    def dead_since(self: Liveness, client: str, row: Any, now: int) -> int | None:
        heard = self._heard.get(client, 0)
        return row.renewed_at if client not in self._polling and heard + self._timeout // 5 <= now else None

    return dead_since


def _whenever(right: Any) -> Any:
    """Judges clients at once, even right after a start."""

    async def end_dead_clients(self: Liveness) -> None:
        self._judges_from = 0
        await right(self)

    return end_dead_clients


def _lease_or_not(_right: Any) -> Any:
    """Settles a claim even after its lease."""

    def is_lost(self: Settling, wish: Any) -> bool:
        claim = self.locked.claim(wish.key)
        return claim is not None and any(claim.outcome[place] != Outcome.OPEN for place in wish.places or ())

    return is_lost


def _promised(right: Any) -> Any:
    """Answers a cancel that came too late with success."""

    async def cancel(self: Intake, id_: int) -> Verdict:
        verdict: Verdict = await right(self, id_)
        return evolve(verdict, result="cancelled") if verdict.result == "too_late" else verdict

    return cancel


def _each_its_own(right: Any) -> Any:
    """Makes each node know only its own idempotency keys."""

    async def publish(self: Store, publications: Sequence[Publication], now: int, **how: Any) -> Any:
        own = [
            one if one.idempotency_key is None else replace(one, idempotency_key=f"{id(self)}{one.idempotency_key}")
            for one in publications
        ]
        return await right(self, own, now, **how)

    return publish


PLANTS = {
    "done-again": Plant(("written twice", "promoted twice"), ((Store, "_write", _again),)),
    "told-as-not-done": Plant(("invented", "lost", "counters"), ((Store, "_write", _denied),)),
    "publish-believed": Plant(("lost",), ((Backend, "write", _believed("Publishing")),)),
    "claim-believed": Plant(("duplicate",), ((Backend, "write", _believed("tuple")),)),
    "clock-ahead": Plant(("early",), ((Clock, "take", _as_of_the_question),)),
    "no-sweeps": Plant(("late", "stuck", "lost"), ((Sweeps, "near", _never), (Sweeps, "far", _never))),
    "buried-alive": Plant(
        ("duplicate",), ((Liveness, "_dead_since", _own_memory), (Liveness, "_end_dead_clients", _whenever))
    ),
    "stale-ack": Plant(("stale ack",), ((Settling, "_is_lost", _lease_or_not),)),
    "cancel-too-late": Plant(("cancel",), ((Intake, "cancel", _promised),)),
    "own-idempotency-keys": Plant(("written twice", "promoted twice"), ((Store, "_publish", _each_its_own),)),
}
"""The plants by name."""
