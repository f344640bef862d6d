"""Bells ring for those who listen to a queue, and are forgotten with them."""

import trio

from tarry.service.stream.bells import Bells


async def test_one_of_several_queues() -> None:
    bells = Bells()
    with bells.listen([1, 2]) as bell, bells.listen([3]) as other:
        assert bells.awaited
        bells.ring(2)
        assert bell.is_set()
        assert not other.is_set()
    assert not bells.awaited


async def test_who_listens_first_and_looks_then_misses_nothing() -> None:
    bells = Bells()
    with bells.listen([1]) as bell:
        bells.ring(1)  # while it looks
        with trio.fail_after(1):
            await bell.wait()


async def test_nobody_is_kept_who_went_away() -> None:
    bells = Bells()
    for _ in range(100):
        with trio.move_on_after(0), bells.listen([1]) as bell:
            await bell.wait()
    assert not bells.awaited


async def test_everybody_goes_home() -> None:
    bells = Bells()
    with bells.listen([1]) as one, bells.listen([2]) as two:
        bells.ring_all()
        assert one.is_set()
        assert two.is_set()
