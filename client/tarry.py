"""`Tarry`: one object for producers and consumers, one method per call of the contract."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from threading import Event
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import httpx

from .batches import MAX_BYTES, MAX_MESSAGES
from .bodies import Dumps
from .claims import Claims
from .consumption import Consumption
from .delivery import Delivery
from .durations import Duration, Seconds, duration_out, instant_in, instant_out, milliseconds, seconds
from .errors import TarryError
from .identity import Identity
from .operations import OnProgress, Operations
from .paths import part
from .producer import OnFailure, Producer
from .records import Claim, DeadLetter, Draft, Failed, Message, Named, Pulled, Receipt, Rescheduled, id_of
from .runner import Runner
from .stock import Terms
from .transport import Transport, encode
from .warner import Warner

T = TypeVar("T")


class Tarry:
    """A client of one server. Safe to share between threads; close it, or use it in a `with`.

    A call is tried again while the server is away, overloaded or failing (back-off with full jitter, `Retry-After`
    honoured), and raises `Unavailable` when `deadline` seconds have passed. Repeating is harmless: a publish carries an
    idempotency key of its own, and acks and cancels count once. Only a claim whose answer was lost costs something: its
    messages come again when their lease is over, with one attempt used.

    `timeout` is for one try. `client` is an httpx client of your own (proxies, certificates, credentials). `on_failure`
    is called with topic, body (a list of them for a batch) and error when a publish has finally failed, before the
    error is raised. `json` writes bodies, from any value to JSON text: `msgspec.json.encode`, `orjson.dumps`.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8277",
        *,
        timeout: Seconds = 10.0,
        deadline: Seconds = 30.0,
        client: httpx.Client | None = None,
        on_failure: OnFailure | None = None,
        json: Dumps | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport = Transport(
            url,
            timeout=seconds(timeout, "timeout"),
            deadline=seconds(deadline, "deadline"),
            client=client,
            sleep=sleep,
        )
        self._producer = Producer(self._transport, on_failure, json)
        self._claims = Claims(self._transport)
        self._operations = Operations(self._transport)
        self._identity = Identity(url)

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
        self._transport.close()

    # Publishing

    def publish(
        self,
        topic: str,
        body: Any,
        *,
        key: str | None = None,
        delay: Duration | None = None,
        deliver_at: datetime | str | None = None,
        headers: Mapping[str, str] | None = None,
        tag: str | None = None,
        ordering_key: str | None = None,
        queue: int | None = None,
        idempotency_key: str | None = None,
        content_type: str | None = None,
    ) -> Receipt:
        """Publishes a message: now, after `delay` (`"48h"`, a timedelta), or at `deliver_at`."""
        draft = Draft(
            body=body,
            content_type=content_type,
            key=key,
            delay=delay,
            deliver_at=deliver_at,
            headers=headers,
            tag=tag,
            ordering_key=ordering_key,
            queue=queue,
        )
        return self._producer.publish(topic, draft, idempotency_key)

    def publish_many(
        self,
        topic: str,
        messages: Iterable[Draft | dict[str, Any]],
        *,
        on_batch: Callable[[list[Receipt]], object] | None = None,
        max_messages: int = MAX_MESSAGES,
        max_bytes: int = MAX_BYTES,
    ) -> list[Receipt]:
        """Publishes drafts, or dicts of a draft's fields, in batches; each batch is one transaction.

        When one fails, those before it stay published: `on_batch` has had their receipts.
        """
        return self._producer.publish_many(
            topic, messages, on_batch=on_batch, max_messages=max_messages, max_bytes=max_bytes
        )

    def cancel(self, id: Named) -> Literal["cancelled"]:  # noqa: A002 - the contract's word
        """Returns when the message will never be delivered. Raises `TooLate` when it was handed out, `NotFound`."""
        self._transport.call("DELETE", f"/v1/messages/{part(id_of(id))}")
        return "cancelled"

    def nudge(self, topic: str | None = None) -> None:
        """After the commit of an outbox: its messages are looked for at once, instead of within a second."""
        self._call("POST", "/v1/nudge", {} if topic is None else {"topic": topic})

    def reschedule(
        self,
        id: Named,  # noqa: A002 - the contract's word
        *,
        delay: Duration | None = None,
        deliver_at: datetime | str | None = None,
    ) -> Rescheduled:
        """Gives a waiting message another time; its id stays. Raises `TooLate`, `Cancelled`, `NotFound`."""
        request: dict[str, Any] = {}
        if delay is not None:
            request["delay"] = duration_out(delay, "delay")
        if deliver_at is not None:
            request["deliver_at"] = instant_out(deliver_at)
        document = self._call("PATCH", f"/v1/messages/{part(id_of(id))}", request)
        return Rescheduled(document["id"], instant_in(document["deliver_at"]))

    # Consuming

    def consume(
        self,
        topic: str,
        group: str,
        *,
        max: int = 10,  # noqa: A002 - the contract's word
        lease: Duration = "60s",
        wait: Duration = "2s",
        client: str | None = None,
        limit: int | None = None,
        idle_timeout: Seconds | None = None,
        tags: Sequence[str] | None = None,
        start: str | None = None,
    ) -> Generator[Delivery, None, None]:
        """Messages, one after the other, each to be handled in a `with message:`.

        While one is handled the next claim is made and leases are renewed, in threads of its own. Acks go out with the
        others of their claim, 100 ms later at most. It ends after `limit` messages, or `idle_timeout` seconds without
        one. Leaving the loop gives back what was not handled, uncounted; that takes up to `wait`, because a claim in
        flight is waited for.

        A message that is let go of without `with message:`, `ack`, `fail` or `retry` has failed: it comes again by its
        ladder, and a RuntimeWarning tells of the first. What is kept may be settled until the loop's end.

        `tags` chooses: other messages are skipped for the group. Of a broadcast topic each `client` gets every message,
        from `start` on (`"earliest"`, or `"latest"`, the default, for one that is new). Leaving `with message:` notes
        it as seen, whether it raises or not: nothing is acked, and nothing comes again, but for what was not seen.
        """
        terms = self._terms(
            *(topic, group, max, lease, wait, client), ahead=max // 2, limit=limit, tags=_tags(tags), start=start
        )
        consumption = Consumption(self._claims, terms)
        warner = Warner(topic)
        idle = None if idle_timeout is None else seconds(idle_timeout, "idle_timeout")
        try:
            consumption.start()
            while (delivery := consumption.next(idle)) is not None:
                warner.look(consumption.left())
                yield delivery
                del delivery  # whoever let go of it is not to be mistaken for having it
            consumption.end_loop()
            warner.look(consumption.left())
        finally:
            consumption.close()

    def run(
        self,
        topic: str,
        group: str,
        handler: Callable[[Any], object],
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
        """The same with workers: `handler(message.body)` in threads, until SIGTERM, SIGINT or `stop`.

        With `pass_message` the handler gets the message itself, with its headers, its attempt and `retry`. Then what is
        in flight is finished, for `drain` at most (None: without a limit), the rest is given back uncounted, and it
        returns. A handler that has not returned by then is left alone, and its message to its lease.

        `signals` says whether SIGTERM and SIGINT are heard. Unless it is said, they are where this is the main program:
        in the main thread, and where nobody else has a handler for SIGTERM.

        No claim is made while `max_cached` messages or `max_cached_bytes` are held. `tags`, `start` and broadcast
        topics: as in `consume`.
        """
        _at_least_one(workers=workers, max_cached=max_cached, max_cached_bytes=max_cached_bytes)
        size = max or min(2 * workers, 1000)
        terms = self._terms(
            topic,
            group,
            size,
            lease,
            wait,
            client,
            ahead=workers,
            max_messages=max_cached,
            max_bytes=max_cached_bytes,
            tags=_tags(tags),
            start=start,
        )
        Runner(
            Consumption(self._claims, terms),
            handler,
            whole=pass_message,
            workers=workers,
            stop=stop,
            drain=None if drain is None else milliseconds(drain, "drain") / 1000,
            signals=signals,
        ).run()

    def _terms(
        self,
        topic: str,
        group: str,
        size: int,
        lease: Duration,
        wait: Duration,
        client: str | None,
        **rest: Any,
    ) -> Terms:
        return Terms(
            topic=topic,
            group=group,
            client=client or self._identity.consumer(),
            size=size,
            lease=milliseconds(lease, "lease") / 1000,
            wait=milliseconds(wait, "wait") / 1000,
            named=client is not None,
            **rest,
        )

    def claim(
        self,
        topic: str,
        group: str,
        *,
        client: str | None = None,
        max: int = 10,  # noqa: A002 - the contract's word
        wait: Duration = 0,
        lease: Duration = "60s",
        tags: Sequence[str] | None = None,
        start: datetime | str | None = None,
        after: str | None = None,
    ) -> Claim | None:
        """Up to `max` messages for `lease`, waiting up to `wait` for the first; None when there are none.

        `start` is where a new group begins, or a new client of a broadcast topic: `"earliest"` or `"latest"`. Messages
        with other `tags` than these are skipped for the group. Of a broadcast topic, `after` is `next` of the claim
        before, and confirms it (`""` at first); without it the client's offset moves with the answer.
        """
        name = client or self._identity.client()
        return self._claims.claim(
            *(topic, group),
            client=name,
            size=max,
            wait=milliseconds(wait, "wait"),
            lease=milliseconds(lease, "lease"),
            tags=_tags(tags),
            start=start,
            after=after,
        )

    def ack(self, claim: Claim | str, ids: Iterable[Named] | None = None) -> int:
        """Settles messages of a claim, all when `ids` is left out; returns how many. Raises `LeaseLost`."""
        return self._claims.ack(_claim_id(claim), _ids(ids))

    def fail(
        self,
        claim: Claim | str,
        ids: Iterable[Named] | None = None,
        *,
        reason: str | None = None,
        retry_after: Duration | None = None,
        count: bool = True,
    ) -> Failed:
        """Gives messages back: onto the ladder, or after `retry_after`; `count=False` does not use up an attempt.

        Raises `LeaseLost`, also when an earlier try did it and its answer was lost.
        """
        named = _ids(ids)
        return self._claims.fail(_claim_id(claim), named, reason=reason, retry_after=retry_after, count=count)

    def extend(self, claim: Claim | str, lease: Duration) -> datetime:
        """A lease that runs from now; returns its end. Raises `LeaseLost`."""
        return self._claims.extend(_claim_id(claim), milliseconds(lease, "lease"))

    def renew(self, client: str | None = None) -> datetime:
        """A sign of life of a consumer; from the first on it is dead 15 s after the last, and its claims end.

        A claim and an open long poll are signs, too. `consume` and `run` send their own. Returns until when it lives.
        """
        return self._claims.renew(client or self._identity.client()).until

    def deregister(self, client: str | None = None) -> int:
        """The consumer goes: its claims end at once, and what is open comes to others. Returns how many claims."""
        return self._claims.deregister(client or self._identity.client())

    # Looking

    def clients(self) -> Iterator[dict[str, Any]]:
        """The clients there are, by name, with what they hold, page by page."""
        return self._operations.clients()

    def message(self, id: Named) -> dict[str, Any]:  # noqa: A002 - the contract's word
        """The message, its state and its `life`, as the server tells it."""
        return self._call("GET", f"/v1/messages/{part(id_of(id))}")

    def pull(
        self,
        topic: str,
        queue: int = 0,
        offset: int = 0,
        max: int = 10,  # noqa: A002 - the contract's word
        *,
        wait: Duration = 0,
    ) -> Pulled:
        """Messages of a queue by your own offset: no claim, no ack."""
        patience = milliseconds(wait, "wait")
        path = f"/v1/topics/{part(topic)}/queues/{queue}/messages"
        params: dict[str, str | int] = {"offset": offset, "max": max, "wait": patience}
        document = self._transport.call("GET", path, params=params, wait=patience / 1000).document
        messages = tuple(Message.read(record, topic) for record in document["messages"])
        return Pulled(messages, document["next_offset"])

    def find(
        self,
        topic: str,
        *,
        key: str | None = None,
        state: Literal["scheduled", "published", "cancelled", "claimed", "retrying", "parked", "dead"] | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The messages of a key, or in a state, due from `start` to before `end`, page by page."""
        return self._operations.find(topic, key=key, state=state, start=start, end=end)

    def upcoming(
        self, topic: str, *, buckets: int = 24, width: Duration = "1h", start: datetime | str | None = None
    ) -> dict[str, Any]:
        """How many messages fall due in each stretch of `width` from now on, or from `start`.

        Many messages, of any topic, are not all counted: then `counted_until` is where to go on with `start`.
        """
        params: dict[str, str | int] = {"buckets": buckets, "width": milliseconds(width, "width")}
        if start is not None:
            params["from"] = instant_out(start, "start")
        return self._transport.call("GET", f"/v1/topics/{part(topic)}/upcoming", params=params).document

    def topics(self, sort: Literal["name", "rate", "backlog"] = "name") -> list[dict[str, Any]]:
        """All topics with their counts, rates of the last minute and backlogs; a call for each thousand."""
        topics: dict[str, dict[str, Any]] = {}
        params: dict[str, str | int] = {"sort": sort, "max": 1000}
        while True:
            page = self._transport.call("GET", "/v1/topics", params=params).document
            # One whose rank has changed meanwhile may come twice.
            topics |= {topic["topic"]: topic for topic in page["topics"]}
            if (cursor := page.get("cursor")) is None:
                return list(topics.values())
            params = params | {"cursor": cursor}

    def topic(self, topic: str) -> dict[str, Any]:
        """One topic with its counts, queues and groups."""
        return self._call("GET", f"/v1/topics/{part(topic)}")

    def put_topic(
        self,
        topic: str,
        *,
        kind: Literal["cluster", "broadcast"] | None = None,
        queues: int | None = None,
        ordered: bool | None = None,
        retention: Duration | None = None,
        ladder: Sequence[Duration] | Literal["default"] | None = None,
        jitter: float | None = None,
        sequencer: Literal["store", "redis"] | None = None,
    ) -> dict[str, Any]:
        """Makes a topic, or changes what is named. `"default"` for `ladder` or `retention` takes back an own one.

        `sequencer` says who draws the offsets: the store, or on MySQL a Redis.
        """
        settings = {
            "kind": kind,
            "queues": queues,
            "ordered": ordered,
            "retention": None if retention is None else _or_default(retention, _retention_out),
            "ladder": None if ladder is None else _or_default(ladder, _rungs_out),
            "jitter": jitter,
            "sequencer": sequencer,
        }
        return self._call("PUT", f"/v1/topics/{part(topic)}", _given(settings))

    def group(self, topic: str, group: str) -> dict[str, Any]:
        """A group's backlog, offsets, clients, retries per rung and dead letters."""
        return self._call("GET", f"/v1/topics/{part(topic)}/groups/{part(group)}")

    def put_group(
        self,
        topic: str,
        group: str,
        *,
        ladder: Sequence[Duration] | Literal["default"] | None = None,
        jitter: float | None = None,
        start: datetime | str | None = None,
        on_exhausted: Literal["dead", "block"] | None = None,
        concurrency: int | None = None,
    ) -> dict[str, Any]:
        """Makes a group, or changes what is named. `"default"` for `ladder` takes back an own one.

        `start` is where a group that is made begins: `"earliest"`, `"latest"` or a time. `seek` moves one there is.
        `concurrency`: messages in its clients' hands at once, at most.
        """
        settings = {
            "ladder": None if ladder is None else _or_default(ladder, _rungs_out),
            "jitter": jitter,
            "from": None if start is None else instant_out(start, "start"),
            "on_exhausted": on_exhausted,
            "concurrency": concurrency,
        }
        return self._call("PUT", f"/v1/topics/{part(topic)}/groups/{part(group)}", _given(settings))

    def dead(self, topic: str, group: str) -> Iterator[DeadLetter]:
        """All dead letters of a group, page by page."""
        return self._operations.dead(topic, group)

    def dead_letters(
        self,
        topic: str,
        group: str,
        *,
        key: str | None = None,
        reason: str | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
    ) -> Iterator[DeadLetter]:
        """Dead letters with this key, with this text in their last reason, that died from `start` to before `end`."""
        return self._operations.dead(topic, group, key=key, reason=reason, start=start, end=end)

    # What operators do

    def seek(
        self,
        topic: str,
        group: str,
        to: datetime | str | int,
        *,
        queue: int | None = None,
        dry_run: bool = False,
    ) -> dict[int, int]:
        """Moves a group to `"earliest"`, `"latest"`, a time or an offset (of `queue`); the offset by queue.

        Its open claims are closed first: who acks one afterwards gets `LeaseLost`.
        """
        return self._operations.seek(topic, group, to, queue=queue, dry_run=dry_run)

    def replay(
        self,
        topic: str,
        group: str,
        start: datetime | str | int,
        end: datetime | str | int | None = None,
        *,
        queue: int | None = None,
        name: str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Gives one group a range of the stream once more, from `start` up to and without `end`; how many messages.

        When it is interrupted, the same call goes on where it stopped. So do many calls of one `name`, ranges of
        offsets of one `queue` that rise: what the name has come past is not given again.
        """
        return self._operations.replay(
            topic, group, start, end, queue=queue, name=name, dry_run=dry_run, on_progress=on_progress
        )

    def redrive(
        self,
        topic: str,
        group: str,
        ids: Iterable[Named] | None = None,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        rate: int | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Gives dead letters back to their group, all, or some by id or by the time of their death; how many.

        `rate` is how many a second at most. An exception in `on_progress` stops it; what is done stays done.
        """
        named = _ids(ids)
        return self._operations.letters(
            "redrive", topic, group, named, start=start, end=end, rate=rate, dry_run=dry_run, on_progress=on_progress
        )

    def purge(
        self,
        topic: str,
        group: str,
        ids: Iterable[Named] | None = None,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Removes dead letters for good, all, or some by id or by the time of their death; how many."""
        named = _ids(ids)
        return self._operations.letters(
            "purge", topic, group, named, start=start, end=end, rate=None, dry_run=dry_run, on_progress=on_progress
        )

    def delete_group(self, topic: str, group: str) -> None:
        """Removes a group for good: its position, retries and dead letters. Its claims are over at once."""
        self._call("DELETE", f"/v1/topics/{part(topic)}/groups/{part(group)}")

    def delete_topic(self, topic: str, *, force: bool = False) -> None:
        """Removes a topic for good, with its groups and messages.

        Raises `Conflict` while messages wait or are unsettled; with `force` they are dropped.
        """
        params = {"force": "true"} if force else None
        self._transport.call("DELETE", f"/v1/topics/{part(topic)}", params=params, wait=_SCAN)

    def ready(self) -> bool:
        """Whether the server takes calls at this moment; never raises for a server that is away."""
        try:
            self._transport.call("GET", "/readyz", deadline=0.0)
        except TarryError:
            return False
        return True

    def _call(self, method: str, path: str, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        content = None if request is None else encode(request)
        return self._transport.call(method, path, content).document


_SCAN = 60.0
"""Seconds that the server may take to see that nothing waits."""


def _claim_id(claim: Claim | str) -> str:
    return claim.id if isinstance(claim, Claim) else claim


class _Default:
    """Stands for `null` in what is sent."""


_DEFAULT = _Default()


def _or_default(value: Any, write: Callable[[Any], Any]) -> Any:
    return _DEFAULT if value == "default" else write(value)


def _rungs_out(ladder: Sequence[Duration]) -> list[int | str]:
    return [duration_out(rung, "ladder") for rung in _listed("ladder", ladder)]


def _retention_out(retention: Duration) -> int | str:
    return duration_out(retention, "retention")


def _tags(tags: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if tags is None else tuple(_listed("tags", tags))


def _listed(name: str, values: T) -> T:
    """A text would be taken for a list of its letters."""
    if isinstance(values, str):
        raise ValueError(f"{name} is a list, such as [{values!r}]")
    return values


def _ids(messages: Iterable[Named] | None) -> list[str] | None:
    return None if messages is None else [id_of(message) for message in _listed("ids", messages)]


def _at_least_one(**numbers: int) -> None:
    """With none of them nothing would ever be done, and nobody would say so."""
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{name} is 1 or more, not {number}")


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What is None is left out; the default is sent as null."""
    return {name: None if value is _DEFAULT else value for name, value in settings.items() if value is not None}
