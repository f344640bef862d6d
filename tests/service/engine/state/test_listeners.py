"""Who listens to a queue is woken, and forgotten then."""

import trio

from tarry.service.engine.state.listeners import Listeners


async def test_one_of_several_queues() -> None:
    listeners = Listeners()
    with listeners.listen([1, 2]) as event, listeners.listen([3]) as other:
        assert listeners.awaited
        listeners.notify(2)
        assert event.is_set()
        assert not other.is_set()
    assert not listeners.awaited


async def test_who_listens_first_and_looks_then_misses_nothing() -> None:
    listeners = Listeners()
    with listeners.listen([1]) as event:
        listeners.notify(1)  # while it looks
        with trio.fail_after(30):
            await event.wait()


async def test_nobody_is_kept_who_went_away() -> None:
    listeners = Listeners()
    for _ in range(100):
        with trio.move_on_after(0), listeners.listen([1]) as event:
            await event.wait()
    assert not listeners.awaited


async def test_everybody_goes_home() -> None:
    listeners = Listeners()
    with listeners.listen([1]) as one, listeners.listen([2]) as two:
        listeners.notify_all()
        assert one.is_set()
        assert two.is_set()
