"""`Tarry`, the client for threads: one object for producers and consumers, with one method per call of the API."""

import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from threading import Event
from types import TracebackType
from typing import Self

import httpx
from attrs import evolve

from .api import Api
from .bodies import Dumps
from .claim_size import MANY
from .consumption import Consumption
from .coroutines import drive
from .delivery import Delivery
from .durations import Duration, Seconds, milliseconds, seconds
from .errors import OnFailure
from .fronts import Direct
from .identity import Identity
from .in_threads import InThreads
from .runner import Runner
from .several import Several
from .stock import Terms
from .transport import TaskTransport, ThreadTransport
from .work import Handler, Topics, terms_of, work_of


class Tarry(Api, Direct):
    """A client of one server. Safe to share between threads; close it, or use it in a `with`.

    A call is tried again while the server is away, overloaded or failing (back-off with full jitter, `Retry-After`
    honoured), and raises `Unavailable` when `deadline` seconds have passed. Repeating is harmless: a publish carries an
    idempotency key of its own, and acks and cancels count once. Only a claim whose answer was lost costs something: its
    messages come again when their lease is over, with one attempt used.

    `url` is the server's address; by default `TARRY_URL`, or `http://127.0.0.1:8277`. `key` is the API key; by default
    `TARRY_KEY`, or the content of the file named in `TARRY_KEY_FILE`. It is never shown. `timeout` is for one try.
    `client` is an httpx client of your own (proxies, certificates, credentials); the environment's key is not used with
    it. `on_failure` is called with topic, body (a list of bodies for a batch) and error when a publish has finally
    failed, before the error is raised. `json` writes bodies, from any value to JSON text: `msgspec.json.encode`,
    `orjson.dumps`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout: Seconds = 10.0,
        deadline: Seconds = 30.0,
        client: httpx.Client | None = None,
        on_failure: OnFailure | None = None,
        json: Dumps | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        transport = ThreadTransport(url, timeout=timeout, deadline=deadline, key=key, client=client, sleep=sleep)
        super().__init__(transport, Identity(transport.url), on_failure, json)
        self._beside = (
            partial(TaskTransport, transport.url, timeout=timeout, deadline=deadline, key=key)
            if client is None
            else None
        )

    def __repr__(self) -> str:
        return f"Tarry({self._transport.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        drive(self._transport.close())

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
    ) -> Generator[Delivery, None, None]:
        """Yields messages one after the other, each to be handled in a `with message:`.

        While one is handled, threads of the loop make the next claim and renew leases. Acks go out with the others of
        their claim, 100 ms later at most. A claim asks for `max` messages: if one takes long, a smaller number leaves
        more of them to other clients. The loop ends after `limit` messages, or `idle_timeout` seconds without one.
        Leaving it gives back the messages that were not handled, uncounted; that takes up to `wait`, because a claim in
        flight is waited for.

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
        consumption = self._consumption(terms_of(self._identity, topic, max, tags, **rest), limit)
        idle = None if idle_timeout is None else seconds(idle_timeout, "idle_timeout")
        try:
            consumption.start()
            while (delivery := consumption.next(idle)) is not None:
                consumption.warn_of_left()
                yield delivery
                del delivery  # our own reference must not keep a dropped message alive
            consumption.end_loop()
            consumption.warn_of_left()
        finally:
            consumption.close()

    def run(
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
        stop: Event | None = None,
        signals: bool | None = None,
        drain: Duration | None = "30s",
        max_cached: int = 1000,
        max_cached_bytes: int = 100 * 1024 * 1024,
        tags: Sequence[str] | None = None,
        start: str | None = None,
    ) -> None:
        """Consumes with workers: calls `handler(message.body)` in threads, until SIGTERM, SIGINT or `stop`.

        With `pass_message` the handler gets the message itself, with its headers, its attempt and `retry`. At the end
        messages in flight are finished, for `drain` at most (None: without a limit), the rest is given back uncounted,
        and `run` returns. A handler that has not returned by then is left running, and its message is left to its
        lease.

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
            awaits=False,
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
        Runner(
            consumption=self._consumption(work.terms),
            handlers=work.handlers,
            whole=pass_message,
            workers=workers,
            stop=stop,
            drain=None if drain is None else milliseconds(drain, "drain") / 1000,
            signals=signals,
        ).run()

    def _consumption(self, terms: Sequence[Terms], limit: int | None = None) -> Consumption | Several:
        if len(terms) == 1:
            return Consumption(self._transport, terms[0])
        if (beside := self._beside) is not None:
            return Several(lambda _: beside(), terms, limit)
        # Each topic may have a claim, settlements and a renewal under way, and the end waits for them.
        most, shorter = 3 * len(terms), [evolve(one, longest=0.0) for one in terms]
        return Several(lambda stopped: InThreads(self._transport, stopped, most), shorter, limit)
