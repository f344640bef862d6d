"""Time that a test moves: of the database and of the host, which go on together."""

from typing import Self

from tarry.service.clock import Clock


class HandTime:
    """`clock` shows `ms`, once it has taken a sample."""

    def __init__(self, ms: int = 1_795_000_000_000) -> None:
        self.ms = ms
        self.clock = Clock(self.sample, monotonic=lambda: self.ms * 1_000_000)

    async def sample(self) -> int:
        return self.ms

    async def begun(self) -> Self:
        """With that sample."""
        await self.clock.take()
        return self


class HandSeconds:
    """A clock of seconds, as `time.monotonic`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
