"""Runs the async tests of a file on simulated time: `pytestmark = on_simulated_time`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest
import trio

T = TypeVar("T")


def _run(
    main: Callable[[], Awaitable[T]], *, clock: trio.abc.Clock | None, instruments: Sequence[trio.abc.Instrument]
) -> T:
    from trio.testing import MockClock  # not for all who have no use for it

    assert clock is None, "the test has a clock of its own"
    return trio.run(main, clock=MockClock(autojump_threshold=0), instruments=instruments)


on_simulated_time = pytest.mark.trio(run=_run)
"""Time begins at 0, and jumps to the next deadline whenever all tasks wait. A test that uses a real store takes the
fixture `autojump_clock` instead, which waits for the store's threads."""


def take_marks(items: list[pytest.Function]) -> None:
    """What a file is marked with goes before the mark that pytest-trio gives each of its tests."""
    for item in items:
        if on_simulated_time.mark in item.iter_markers("trio"):
            item.add_marker(on_simulated_time, append=False)
