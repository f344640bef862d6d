"""`consume` and `run`, written once for both fronts; each front says how messages are waited for and handled."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from .calling import Calling
from .claim_size import MANY
from .durations import Duration, Seconds
from .fronts import Awaited, api_call
from .stock import Terms
from .work import Handler, Topics, Work, terms_of, work_of

M = TypeVar("M")
S = TypeVar("S")


class Consuming(Calling, ABC, Generic[M, S]):
    """The loops over messages: `consume` gives an `M`, and an `S` is an event that ends `run`."""

    @abstractmethod
    def _messages(self, terms: Callable[[], Sequence[Terms]], limit: int | None, idle_timeout: Seconds | None) -> M:
        """The messages of topics on these terms, one after the other."""

    @abstractmethod
    async def _handle(self, work: Work, stop: S | None) -> None:
        """Has workers handle messages, until a signal or `stop`."""

    def consume(
        self,
        topic: str | Sequence[str],
        group: str,
        *,
        max: int = MANY,  # noqa: A002 - the contract's word
        lease: Duration = "60s",
        wait: Duration = "2s",
        client: str | None = None,
        limit: int | None = None,
        idle_timeout: Seconds | None = None,
        tags: Sequence[str] | None = None,
        start: str | None = None,
    ) -> M:
        """Yields messages one after the other, each to be handled in a `with message:`, or with `AsyncTarry` in an
        `async with message:`.

        While one is handled, threads or tasks of the loop make the next claim and renew leases. Acks go out with the
        others of their claim, 100 ms later at most. A claim asks for `max` messages: if one takes long, a smaller
        number leaves more of them to other clients. The loop ends after `limit` messages, or `idle_timeout` seconds
        without one. Leaving it gives back the messages that were not handled, uncounted; that takes up to `wait`,
        because a claim in flight is waited for.

        With `AsyncTarry`, `async with tarry.consume(...) as messages` around the loop gives them back at its end. A
        loop left without it, by `break` or an error, does so in the background, at the latest at the end of the
        client's own block.

        A message that is dropped without `with message:`, `ack`, `fail` or `retry` has failed: it comes again by its
        ladder, and a RuntimeWarning reports the first. A message that you keep may be settled until the end of the
        loop.

        `tags` filters: messages with other tags are skipped for the group. On a broadcast topic each `client` gets
        every message, from `start` on (`"earliest"`, or `"latest"`, the default, for a new one). Leaving `with
        message:` marks the message as seen, whether the block raises or not: nothing is acked, and only unseen messages
        come again.

        `topic` may be a list: then the messages of all these topics come, one of each in turn while they have any;
        `message.topic` tells which.
        """
        rest = {"group": group, "client": client, "lease": lease, "wait": wait, "limit": limit, "start": start}
        return self._messages(partial(terms_of, self._identity, topic, max, tags, **rest), limit, idle_timeout)

    @api_call
    async def run(
        self,
        topic: str | Topics,
        group: str,
        handler: Handler | None = None,
        workers: int = 20,
        *,
        pass_message: bool = False,
        max: int | None = None,  # noqa: A002 - the contract's word
        lease: Duration = "60s",
        wait: Duration = "2s",
        client: str | None = None,
        stop: S | None = None,
        signals: bool | None = None,
        drain: Duration | None = "30s",
        max_cached: int = 1000,
        max_cached_bytes: int = 100 * 1024 * 1024,
        tags: Sequence[str] | None = None,
        start: str | None = None,
    ) -> None:
        """Consumes with workers, until SIGTERM, SIGINT or `stop`: calls `handler(message.body)` in threads, or with
        `AsyncTarry` awaits it in tasks.

        With `pass_message` the handler gets the message itself, with its headers, its attempt and `retry`. At the end
        messages in flight are finished, for `drain` at most (None: without a limit), the rest is given back uncounted,
        and `run` returns. A handler that has not returned by then is left running in its thread, and its message is
        left to its lease; in a task it is cancelled, and its message is given back too.

        `signals` says whether SIGTERM and SIGINT are caught. By default they are if this is the main program: in the
        main thread, and if nobody else has a handler for SIGTERM.

        A claim asks for `max` messages; by default for 100, or two for each worker if that is more, and for up to 500
        while the workers are so quick that they wait for each claim. If a message takes long, a smaller `max` leaves
        more of them to other clients. No claim is made while `max_cached` messages or `max_cached_bytes` are held.
        `tags`, `start` and broadcast topics: as in `consume`.

        `topic` may be a list of pairs, so that one worker serves many topics: `[("orders", bill), ("mails", send)]`,
        each with a handler of its own, and without `handler`. The topics share the `workers`. A free worker goes to the
        topic that the fewest workers handle: so a busy topic gets all workers that no other topic needs, and no topic
        waits longer than until a worker is free. Long polls last longer, so that the server is asked no more often than
        for one topic, and the end does not wait for them. All other arguments apply to each topic, except `max_cached`
        and `max_cached_bytes`, which are divided evenly.
        """
        work = work_of(
            self._identity,
            topic,
            handler,
            workers,
            awaits=isinstance(self, Awaited),
            whole=pass_message,
            signals=signals,
            drain=drain,
            max_size=max,
            max_cached=max_cached,
            max_cached_bytes=max_cached_bytes,
            tags=tags,
            group=group,
            client=client,
            lease=lease,
            wait=wait,
            start=start,
        )
        await self._handle(work, stop)
