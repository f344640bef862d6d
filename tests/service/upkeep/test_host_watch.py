"""When another server has the database, what is in memory is read again, all of it."""

from typing import cast

import pytest

from tarry.service.upkeep.host_watch import HostWatch
from tarry.store.errors import StoreError, Unavailable
from tarry.store.ports import Backend


class Told:
    """A watch over servers that are none, and what it did."""

    def __init__(self) -> None:
        self.server = "one"
        self.taken: list[str] = []
        self.wrong: StoreError | None = None
        self.watch = HostWatch(cast(Backend, self), [self.clock, self.topics], [self.wheel])

    def admit(self, server: str) -> None:
        self.taken.append(f"admit {server}")

    async def clock(self) -> None:
        self.taken.append("clock")

    async def topics(self) -> None:
        if self.wrong is not None:
            raise self.wrong
        self.taken.append("topics")

    async def wheel(self) -> None:
        assert self.watch.wrong is None  # it may be written from here on
        self.taken.append("wheel")


async def test_all_steps_are_taken_once_and_again_after_a_failure() -> None:
    told = Told()
    await told.watch.look()
    assert told.taken == ["admit one"]
    told.server, told.wrong = "two", Unavailable("away")
    with pytest.raises(Unavailable):
        await told.watch.look()
    told.wrong = None
    await told.watch.look()
    await told.watch.look()
    assert told.taken[1:] == ["clock", "clock", "topics", "admit two", "wheel"]


async def test_what_is_wrong_is_told_while_it_is_and_raised_once() -> None:
    told = Told()
    assert told.watch.wrong is None
    told.server, told.wrong = "two", Unavailable("no right to it (1142)")
    assert "another server" in (told.watch.wrong or "")
    with pytest.raises(Unavailable):
        await told.watch.look()
    for _ in range(3):
        await told.watch.look()
        assert (told.watch.wrong or "").endswith("the last try: no right to it (1142)")
    told.wrong = Unavailable("away")
    with pytest.raises(Unavailable, match="away"):
        await told.watch.look()
    told.wrong = None
    await told.watch.look()
    assert told.watch.wrong is None
    told.server, told.wrong = "three", Unavailable("away")
    with pytest.raises(Unavailable):  # another time
        await told.watch.look()
