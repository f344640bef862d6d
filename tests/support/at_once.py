"""Several things at the same time."""

from collections.abc import Awaitable, Callable

import trio


async def at_once(*jobs: Callable[[], Awaitable[object]]) -> None:
    async with trio.open_nursery() as nursery:
        for job in jobs:
            nursery.start_soon(job)
