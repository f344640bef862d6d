"""Notices: nodes tell each other over Redis which queues have grown, so that a long poll elsewhere need not look.

A notice that is lost costs latency and nothing else: every node also looks for itself, once a second while somebody
waits. A Redis that is away is asked again from time to time.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog
import trio

_TIMEOUT = 1.0
_PAUSES = (0.5, 1.0, 2.0, 5.0)
_WAITING = 1_000
"""Notices that may wait to be sent; more are dropped, they would come late."""

log = structlog.get_logger()


class Notices:
    """This node's notices over one Redis, and those of the others."""

    def __init__(self, url: str, name: str) -> None:
        """`name` is that of the database: nodes on one database hear each other."""
        import redis  # only who uses Redis needs its library

        self._errors: tuple[type[Exception], ...] = (redis.RedisError, OSError)
        self._connect: Callable[[], Any] = lambda: redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType, reportUnknownLambdaType]
            url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT
        )
        self._channel = f"tarry:{name}:grown"
        self._own = ""
        self._send, self._outgoing = trio.open_memory_channel[int](_WAITING)

    def tell(self, queue_id: int) -> None:
        """Tells the others; never waits."""
        try:
            self._send.send_nowait(queue_id)
        except trio.WouldBlock:
            return

    async def run(self, heard: Callable[[int], None]) -> None:
        """Sends and hears for ever, whatever becomes of Redis; `heard` is called with the id of each queue that another
        node has made grow."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_at, "notices_not_sent", self._speak)
            nursery.start_soon(self._keep_at, "notices_not_heard", partial(self._listen, heard))

    async def _keep_at(self, event: str, step: Callable[[Any], Any]) -> None:
        failures = 0
        while True:
            client = self._connect()
            try:
                await step(client)
                failures = 0
            except self._errors as error:
                if not failures:
                    log.warning(event, error=str(error))
                await trio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1
            finally:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(client.close)

    async def _speak(self, client: Any) -> None:
        self._own = self._own or str(await trio.to_thread.run_sync(client.client_id))
        while True:
            queues = {await self._outgoing.receive()}
            try:
                while True:
                    queues.add(self._outgoing.receive_nowait())
            except trio.WouldBlock:
                pass
            await trio.to_thread.run_sync(client.publish, self._channel, json.dumps([self._own, *sorted(queues)]))

    async def _listen(self, heard: Callable[[int], None], client: Any) -> None:
        listener = client.pubsub(ignore_subscribe_messages=True)
        try:
            await trio.to_thread.run_sync(listener.subscribe, self._channel)
            while True:
                # In pieces of half a second, so that the thread ends soon when the server does.
                message = await trio.to_thread.run_sync(listener.get_message, True, 0.5)
                if message is not None:
                    self._take(message["data"], heard)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(listener.close)

    def _take(self, data: bytes, heard: Callable[[int], None]) -> None:
        try:
            sender, *queues = json.loads(data)
        except ValueError:
            return
        if sender != self._own:
            for queue_id in queues:
                if isinstance(queue_id, int):
                    heard(queue_id)
