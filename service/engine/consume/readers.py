"""Reading without claims: pulls by an offset of the caller's own, and the clients of broadcast topics."""

from collections.abc import Sequence

import trio
from attrs import define, evolve, field

from ....store.errors import GroupGone, TopicGone
from ....store.records import Queue, ReadAnswer, ReadRequest
from ....store.store import Store
from ....store.stream import readers, stretches
from ....store.stream.stretches import Pulled
from ...clock import Clock
from ..batching.combiner import Combiner
from ..state.directory import Directory
from ..state.listeners import Listeners
from .deliveries import Deliveries

_TOGETHER = 10_000
"""Messages given to clients of broadcast topics in one transaction, at most."""
_LOOKS = 16
"""Pulls that read at a time: a queue that grows wakes every pull that waits for it, and each may be given 8 MiB."""


@define(eq=False)
class Readers:
    """Lets readers wait, and asks the store when their queue has grown."""

    _store: Store
    _directory: Directory
    _clock: Clock
    _listeners: Listeners
    _deliveries: Deliveries
    _together: Combiner[ReadRequest, ReadAnswer] = field(init=False)
    _looking: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(_LOOKS), init=False)
    _stopping: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._together = Combiner(
            self._read,
            write_free=self._read_free,
            lane=lambda request: (request.group.id, request.client),
            weigh=lambda request: request.size,
            batch=_TOGETHER,
        )

    async def run(self) -> None:
        await self._together.run()

    def stop(self) -> None:
        self._stopping = True
        self._together.hurry()
        self._listeners.notify_all()

    @property
    def idle(self) -> bool:
        return self._together.idle

    async def read_on(self, request: ReadRequest, wait: int) -> ReadAnswer:
        """The messages that a client of a broadcast topic has not had yet; waits up to `wait` milliseconds for one."""
        until = trio.current_time() + wait / 1000
        try:
            return await self._read_on(request, until)
        except GroupGone:
            self._directory.forget_group(request.group)
            return ReadAnswer((), (0, 0))

    async def pull(self, queue: Queue, offset: int, size: int, wait: int) -> Pulled:
        """Messages from an offset on; waits up to `wait` milliseconds for one."""
        until = trio.current_time() + wait / 1000
        while True:
            with self._listeners.listen([queue.id]) as grown:
                try:
                    async with self._looking:
                        pulled = await self._store.read(stretches.read_from, queue, offset, size, self._clock.now())
                except TopicGone:
                    return Pulled([], offset)
                if pulled.messages:
                    return pulled
                offset = pulled.next
                if pulled.more:
                    continue
                with trio.move_on_at(until):
                    await grown.wait()
                gone = self._directory.topic_of_queue(queue.id) is None
                if gone or self._stopping or trio.current_time() >= until:
                    return pulled

    async def _read_on(self, request: ReadRequest, until: float) -> ReadAnswer:
        while True:
            with self._listeners.listen(queue.id for queue in request.group.topic.queues) as grown:
                # A write that moves an offset is not broken off: only the waiting is.
                answer = await self._together.ask(request)
                if answer.messages or answer.beyond:
                    self._deliveries.note(request.group, answer.messages, self._clock.now())
                    return answer
                request = evolve(request, after=None)  # the write has confirmed it
                if not answer.more:
                    with trio.move_on_at(until):
                        await grown.wait()
                    gone = self._directory.group_by_id(request.group.id) is None
                    if gone or self._stopping or trio.current_time() >= until:
                        return answer

    async def _read(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer]:
        return await self._store.write(readers.read_on, requests, self._clock.now())

    async def _read_free(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer | None]:
        return await self._store.write(readers.read_on_free, requests, self._clock.now())
