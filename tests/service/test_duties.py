"""What one node does for all is done as soon as it is this node that does it."""

from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing

from tarry.service.node import Node
from tarry.service.tasks import duty


class Duties:
    """As of `Nodes`."""

    def __init__(self) -> None:
        self.taken = trio.Event()

    @property
    def has_duties(self) -> bool:
        return self.taken.is_set()

    async def until_duties(self) -> None:
        await self.taken.wait()


async def test_it_is_done_when_they_are_taken(nursery: trio.Nursery) -> None:
    duties, done = Duties(), list[str]()
    node = cast(Node, SimpleNamespace(nodes=cast(Any, duties)))

    async def step() -> None:
        done.append("done")

    take = duty(node, step, lambda: done.append("not ours"))
    nursery.start_soon(take)
    await trio.testing.wait_all_tasks_blocked()
    assert done == ["not ours"]
    duties.taken.set()
    await trio.testing.wait_all_tasks_blocked()
    assert done == ["not ours", "done"]
    await take()
    assert done == ["not ours", "done", "done"]
    assert take.__name__ == "step"
