"""A step that is taken over and over, and fails: the log has its name, and nothing of what it is called with."""

from functools import partial

import pytest
import structlog
import trio

from support.simulated import on_simulated_time
from tarry.service.rounds import every
from tarry.store.errors import Refused, Unavailable

pytestmark = on_simulated_time


class Step:
    """One that is no function."""

    async def __call__(self) -> None:
        raise Unavailable("away")


async def look_after(_node: str) -> None:
    raise Unavailable("away")


@pytest.mark.parametrize(
    ("step", "name"), [(partial(look_after, "half of the server"), "look_after"), (Step(), "Step")]
)
async def test_the_log_has_the_name_of_a_step_that_fails(step: Step, name: str) -> None:
    with structlog.testing.capture_logs() as logs, trio.move_on_after(1.5):
        await every(1, step)
    assert [(line["event"], line.get("step")) for line in logs] == [("round_failed", name)] * 2


class Sick:
    """A step that fails so many times, and goes well so many times, in turn."""

    def __init__(self, *lives: int) -> None:
        self._lives = [bad for at, life in enumerate(lives) for bad in [at % 2 == 0] * life]

    async def __call__(self) -> None:
        if self._lives and self._lives.pop(0):
            raise Refused(f"{len(self._lives)} to go")


async def told_of(step: Sick, seconds: float) -> list[tuple[str, float | None]]:
    """The events, each with what it counts: failures, or the seconds that they took."""
    with structlog.testing.capture_logs() as logs, trio.move_on_after(seconds):
        await every(0.2, step)
    return [(line["event"], line.get("seconds", line.get("failures"))) for line in logs]


@pytest.mark.slow
async def test_a_step_that_goes_on_failing_is_a_line_now_and_then() -> None:
    told = await told_of(Sick(5 * 60 * 60), 3700)
    assert told[0] == ("round_failed", 1)
    event, seconds = told[-1]
    assert event == "round_well"
    assert seconds == pytest.approx(3600, abs=1)
    assert {event for event, _ in told[1:-1]} == {"round_failed"}
    assert len(told) <= 362
    # Not one of them is left out of the count but those since the last line.
    assert 5 * 60 * 60 - 51 <= sum(failures or 0 for _, failures in told[:-1]) <= 5 * 60 * 60


async def test_a_step_that_fails_now_and_then_is_no_flood_either() -> None:
    told = await told_of(Sick(*[1] * 3000), 600)
    assert told[:3] == [("round_failed", 1), ("round_well", 0.2), ("round_failed", 26)]
    assert len(told) <= 2 * 61


async def test_when_it_is_well_again_it_says_how_often_it_failed() -> None:
    with structlog.testing.capture_logs() as logs, trio.move_on_after(120):
        await every(0.2, Sick(300))
    assert [line["failures"] for line in logs if line["event"] == "round_well"] == [300]


async def test_a_step_that_goes_well_says_nothing() -> None:
    assert await told_of(Sick(0, 100), 20) == []


async def test_of_several_steps_one_is_behind_the_other_and_each_fails_by_itself() -> None:
    taken: list[tuple[str, float]] = []
    began = trio.current_time()

    async def first() -> None:
        taken.append(("first", trio.current_time() - began))
        await trio.sleep(3)
        raise Refused("no")

    async def second() -> None:
        taken.append(("second", trio.current_time() - began))

    with structlog.testing.capture_logs() as logs, trio.move_on_after(15):
        await every(10, first, second)
    assert taken == [("first", 0), ("second", 3), ("first", 13)]
    assert [line["step"] for line in logs] == ["first"]
