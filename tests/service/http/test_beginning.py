"""When an answer begins whose request is still being sent."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tarry.service.http.beginning import Beginning


async def test_with_nothing_to_hold_back_it_has_begun() -> None:
    beginning = Beginning(0)
    assert beginning.begun
    await beginning.wait()


@pytest.mark.parametrize(
    ("asked_last", "pause"),
    [
        pytest.param(False, 5, id="however long the store takes, for then nothing is asked for"),
        pytest.param(True, 0.6, id="while something comes"),
    ],
)
async def test_it_waits_until_the_request_has_come(
    nursery: trio.Nursery, mock_clock: MockClock, asked_last: bool, pause: float
) -> None:
    beginning = Beginning(100)
    nursery.start_soon(beginning.wait)
    steps = [beginning.come, beginning.ask] if asked_last else [beginning.ask, beginning.come]
    for _ in range(50):
        for step in steps:
            step()
        await wait_all_tasks_blocked()
        mock_clock.jump(pause)
        await wait_all_tasks_blocked()
    assert not beginning.begun
    beginning.begin()
    assert beginning.begun


async def test_who_sends_nothing_more_has_it(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    beginning = Beginning(100)
    beginning.ask()
    nursery.start_soon(beginning.wait)
    await wait_all_tasks_blocked()
    assert not beginning.begun
    mock_clock.jump(1.1)
    await wait_all_tasks_blocked()
    assert beginning.begun


async def test_no_more_is_held_back_than_may_be() -> None:
    beginning = Beginning(100)
    beginning.hold(60)
    assert not beginning.begun
    beginning.hold(60)
    assert beginning.begun
