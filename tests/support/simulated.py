"""Runs the async tests of a file on simulated time: `pytestmark = on_simulated_time`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest
import trio
from trio.testing import MockClock

T = TypeVar("T")


def _run(
    main: Callable[[], Awaitable[T]], *, clock: trio.abc.Clock | None, instruments: Sequence[trio.abc.Instrument]
) -> T:
    assert clock is None, "the test has a clock of its own"
    return trio.run(main, clock=MockClock(autojump_threshold=0), instruments=instruments)


on_simulated_time = pytest.mark.trio(run=_run)
"""Time begins at 0, and jumps to the next deadline whenever all tasks wait. A test that uses a real store takes the
fixture `autojump_clock` instead, which waits for the store's threads."""
