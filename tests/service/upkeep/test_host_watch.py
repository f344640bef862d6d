"""When another server has the database, what is in memory is read again, all of it."""

import pytest

from tarry.service.upkeep.host_watch import HostWatch
from tarry.store.errors import Unavailable


async def test_all_steps_are_taken_once_and_again_after_a_failure() -> None:
    server, taken, away = "one", list[str](), False

    async def clock() -> None:
        taken.append("clock")

    async def topics() -> None:
        if away:
            raise Unavailable("away")
        taken.append("topics")

    async def wheel() -> None:
        taken.append("wheel")

    watch = HostWatch(lambda: server, lambda name: taken.append(f"admit {name}"), [clock, topics], [wheel])
    await watch.look()
    assert taken == ["admit one"]
    server, away = "two", True
    with pytest.raises(Unavailable):
        await watch.look()
    away = False
    await watch.look()
    await watch.look()
    assert taken[1:] == ["clock", "clock", "topics", "admit two", "wheel"]
