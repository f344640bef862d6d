"""Notices: nodes tell each other over Redis what they have done, so that the others need not wait for their next poll
of the store.

They tell which queues have grown, in which groups there may be more to claim, that something was created, changed or
removed, and that a node holds other shards of the wheel or stops. A lost notice costs latency and nothing else: every
node also polls, once a second while somebody waits. If Redis is away, it is tried again from time to time.
"""

import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Literal

import structlog
import trio

_TIMEOUT = 1.0
_PAUSES = (0.5, 1.0, 2.0, 5.0)
_WAITING = 1_000
"""Notices that may wait to be sent; further ones are dropped, since they would come too late to help."""

Subject = Literal["grown", "group", "catalogue", "node"]
"""What a notice is about: a queue, by its id; a group; a topic; a node, by its slot."""
SUBJECTS: tuple[Subject, ...] = ("grown", "group", "catalogue", "node")
Heard = Mapping[Subject, Callable[[int], None]]
Tell = Callable[[Subject, int], None]

log = structlog.get_logger()


class Notices:
    """Sends this node's notices over one Redis, and receives those of the other nodes."""

    def __init__(self, url: str, name: str) -> None:
        """`name` is the name of the database: nodes on the same database hear each other."""
        import redis  # its library is needed only where Redis is used

        self._errors: tuple[type[Exception], ...] = (redis.RedisError, OSError)
        self._connect: Callable[[], Any] = lambda: redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType, reportUnknownLambdaType]
            url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT
        )
        self._channels: dict[Subject, str] = {subject: f"tarry:{name}:{subject}" for subject in SUBJECTS}
        self._own = ""
        self._send, self._outgoing = trio.open_memory_channel[tuple[Subject, int]](_WAITING)

    def tell(self, subject: Subject, id_: int) -> None:
        """Queues a notice to the other nodes; never waits."""
        try:
            self._send.send_nowait((subject, id_))
        except trio.WouldBlock:
            return

    async def run(self, heard: Heard) -> None:
        """Sends and receives for ever, also while Redis fails; `heard` is called with the id in each notice of another
        node."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_at, "sent", self._speak)
            nursery.start_soon(self._keep_at, "heard", partial(self._listen, heard))

    async def _keep_at(self, what: str, step: Callable[[Any, Callable[[], None]], Awaitable[None]]) -> None:
        """Runs the step for ever, with a new client after each failure; the step calls `answered` when Redis has
        replied."""
        failures = 0

        def answered() -> None:
            nonlocal failures
            if failures:
                log.info(f"notices_{what}")
            failures = 0

        while True:
            client = self._connect()
            try:
                await step(client, answered)
            except self._errors as error:
                if not failures:
                    log.warning(f"notices_not_{what}", error=str(error))
                await trio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1
            finally:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(client.close)

    async def _speak(self, client: Any, answered: Callable[[], None]) -> None:
        self._own = self._own or str(await trio.to_thread.run_sync(client.client_id))
        while True:
            notices = {await self._outgoing.receive()}
            try:
                while True:
                    notices.add(self._outgoing.receive_nowait())
            except trio.WouldBlock:
                pass
            by_subject: defaultdict[Subject, list[int]] = defaultdict(list)
            for subject, id_ in sorted(notices):
                by_subject[subject].append(id_)
            for subject, ids in by_subject.items():
                text = json.dumps([self._own, *ids])
                await trio.to_thread.run_sync(client.publish, self._channels[subject], text)
            answered()

    async def _listen(self, heard: Heard, client: Any, answered: Callable[[], None]) -> None:
        listener = client.pubsub(ignore_subscribe_messages=True)
        by_channel = {channel.encode(): heard[subject] for subject, channel in self._channels.items()}
        try:
            await trio.to_thread.run_sync(listener.subscribe, *self._channels.values())
            while True:
                # Half a second at a time, so that the thread ends soon when the server stops.
                message = await trio.to_thread.run_sync(listener.get_message, True, 0.5)
                answered()
                if message is not None:
                    self._take(message["data"], by_channel[message["channel"]])
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(listener.close)

    def _take(self, data: bytes, heard: Callable[[int], None]) -> None:
        try:
            sender, *ids = json.loads(data)
        except ValueError:
            return
        if sender != self._own:
            for id_ in ids:
                if isinstance(id_, int):
                    heard(id_)
