"""The API as methods: one for each call of the contract, for both fronts. The classes built on it add the loops."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar, cast

from . import arguments, claims, operations, schedules, shares, spans, timers
from .batches import MAX_BYTES, MAX_MESSAGES, cut, receipt, receipts
from .bodies import Dumps, encode, written
from .calls import Call, Page, document_of, paged, part
from .durations import Duration, duration_out, instant_in, instant_out, milliseconds
from .errors import OnFailure, TarryError
from .fronts import api_call, api_pages
from .identity import Identity, new_idempotency_key
from .operations import OnProgress
from .records import (
    Claim,
    DeadLetter,
    Draft,
    Erased,
    Failed,
    Fire,
    Message,
    Named,
    Pulled,
    Receipt,
    Rescheduled,
    Schedule,
    Timer,
    id_of,
)
from .transport import Transport

T = TypeVar("T")

_SCAN = 60.0
"""Seconds that the server may take to see that nothing waits."""


class Api:
    """All that one server can be asked for."""

    def __init__(
        self, transport: Transport[Any], identity: Identity, on_failure: OnFailure | None, json: Dumps | None
    ) -> None:
        self._transport = transport
        self._identity = identity
        self._on_failure = on_failure
        self._json = json

    # Publishing

    @api_call
    async def publish(
        self,
        topic: str,
        body: Any,
        *,
        key: str | None = None,
        delay: Duration | None = None,
        deliver_at: datetime | str | None = None,
        deliver_between: tuple[datetime | str, datetime | str] | None = None,
        expires_at: datetime | str | None = None,
        headers: Mapping[str, str] | None = None,
        tag: str | None = None,
        ordering_key: str | None = None,
        queue: int | None = None,
        guard: str | None = None,
        idempotency_key: str | None = None,
        content_type: str | None = None,
    ) -> Receipt:
        """Publishes a message: now, after `delay` (`"48h"`, a timedelta), at `deliver_at`, or in the emptiest second of
        `deliver_between`, from and to. From `expires_at` on it is not handed out any more, also not once more after a
        failure.

        `guard`: who is asked then, with the `key`, whether it is sent; one that the server declares.
        """
        with spans.sending(topic, again=idempotency_key is not None) as sent:
            draft = Draft(
                body=body,
                content_type=content_type,
                key=key,
                delay=delay,
                deliver_at=deliver_at,
                deliver_between=deliver_between,
                expires_at=expires_at,
                headers=sent.carried(headers),
                tag=tag,
                ordering_key=ordering_key,
                queue=queue,
                guard=guard,
            )
            content = written(draft, self._json, idempotency_key=idempotency_key or new_idempotency_key())
            path = f"/v1/topics/{part(topic)}/messages"
            share = None if sent.alone else shares.message(path, content)
            call = Call("POST", path, receipt, content, share=share)
            return sent.done(await self._publish(topic, call, body))

    @api_call
    async def publish_many(
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
        landed: list[Receipt] = []
        with spans.sending(topic) as sent:
            for batch in cut(sent.carrying(messages), max_messages, max_bytes, self._json):
                bodies = [draft.body for draft in batch.drafts]
                content = batch.request(new_idempotency_key())
                done = await self._publish(
                    topic, Call("POST", f"/v1/topics/{part(topic)}/messages", receipts, content), bodies
                )
                landed.extend(done)
                if on_batch is not None:
                    on_batch(done)
            return sent.done(landed)

    async def _publish(self, topic: str, call: Call[T], body: Any) -> T:
        try:
            return await self._transport.send(call)
        except TarryError as error:
            if self._on_failure is not None:
                self._on_failure(topic, body, error)
            raise

    @api_call
    async def cancel(self, id: Named) -> Literal["cancelled", "suppressed"]:  # noqa: A002 - the contract's word
        """Returns when the message will never be delivered: it is cancelled, or its guard had suppressed it.

        Raises `TooLate` when it was handed out, `NotFound`.
        """
        said = await self._call("DELETE", f"/v1/messages/{part(id_of(id))}")
        return "suppressed" if said.get("result") == "suppressed" else "cancelled"

    @api_call
    async def nudge(self, topic: str | None = None) -> None:
        """After the commit of an outbox: its messages are looked for at once, instead of within a second."""
        await self._call("POST", "/v1/nudge", {} if topic is None else {"topic": topic})

    @api_call
    async def reschedule(
        self,
        id: Named,  # noqa: A002 - the contract's word
        *,
        delay: Duration | None = None,
        deliver_at: datetime | str | None = None,
    ) -> Rescheduled:
        """Gives a waiting message another time; its id stays.

        Raises `TooLate`, `Cancelled`, `Suppressed`, `NotFound`.
        """
        request: dict[str, Any] = {}
        if delay is not None:
            request["delay"] = duration_out(delay, "delay")
        if deliver_at is not None:
            request["deliver_at"] = instant_out(deliver_at)
        document = await self._call("PATCH", f"/v1/messages/{part(id_of(id))}", request)
        return Rescheduled(document["id"], instant_in(document["deliver_at"]))

    # Timers: one message that waits for each key

    @api_call
    async def set_timer(
        self,
        topic: str,
        key: str,
        body: Any,
        *,
        delay: Duration | None = None,
        deliver_at: datetime | str | None = None,
        expires_at: datetime | str | None = None,
        mode: timers.Mode = "replace",
        max_wait: Duration | None = None,
        match: int | None = None,
        headers: Mapping[str, str] | None = None,
        tag: str | None = None,
        ordering_key: str | None = None,
        queue: int | None = None,
        guard: str | None = None,
        idempotency_key: str | None = None,
        content_type: str | None = None,
    ) -> Timer:
        """Sets the timer of a key: the one message of it that waits.

        One that waits already is replaced; with `mode="keep"` it stays, and this one is dropped; with `"debounce"` it
        is replaced, and waits no longer than `max_wait` since the timer was set first. `match`: only at this revision;
        0: only when none waits. Raises `Changed`, and with `match` `TooLate` and `Cancelled`.
        """
        with spans.sending(topic, again=idempotency_key is not None) as sent:
            draft = Draft(
                body=body,
                content_type=content_type,
                delay=delay,
                deliver_at=deliver_at,
                expires_at=expires_at,
                headers=sent.carried(headers),
                tag=tag,
                ordering_key=ordering_key,
                queue=queue,
                guard=guard,
            )
            named = idempotency_key or new_idempotency_key()
            call = timers.set_timer(
                topic, key, draft, self._json, mode=mode, max_wait=max_wait, match=match, idempotency_key=named
            )
            return sent.done(await self._publish(topic, call, body))

    @api_call
    async def timer(self, topic: str, key: str) -> Timer:
        """The timer of a key, and how its message is. Raises `NotFound`, also a day or so after it was done with."""
        return await self._transport.send(timers.timer(topic, key))

    @api_pages
    def timers(self, topic: str) -> Call[Page[Timer]]:
        """The timers of a topic by their keys, page by page; also those remembered yet whose message waits no more."""
        return timers.timers(topic)

    @api_call
    async def cancel_timer(
        self, topic: str, key: str, *, match: int | None = None
    ) -> Literal["cancelled", "suppressed"]:
        """Returns when the message of the key will never be delivered. Raises `TooLate`, `Changed`, `NotFound`."""
        return await self._transport.send(timers.cancel_timer(topic, key, match=match))

    @api_call
    async def cancel_key(self, topic: str, key: str) -> dict[str, int]:
        """Cancels all messages of a key that wait, that of its timer among them: how many, and how many too late."""
        return await self._call("DELETE", f"/v1/topics/{part(topic)}/messages", params={"key": key})

    # Schedules: messages that come again and again

    @api_call
    async def put_schedule(
        self,
        name: str,
        *,
        topic: str,
        body: Any,
        cron: str | None = None,
        timezone: str | None = None,
        every: Duration | None = None,
        starts_at: datetime | str | None = None,
        ends_at: datetime | str | None = None,
        jitter: Duration | None = None,
        misfire: schedules.Misfire | None = None,
        overlap: Literal["allow", "skip", "queue_one"] | None = None,
        group: str | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        tag: str | None = None,
        ordering_key: str | None = None,
        content_type: str | None = None,
        paused: bool | None = None,
        match: int | None = None,
        dry_run: bool = False,
    ) -> Schedule:
        """Makes a schedule, or changes it to this: a message at the times of `cron` in `timezone`, or `every` so often.

        The same once more changes nothing. `match`: only at this revision; 0: only when there is none. `dry_run` tells
        what it would be, and when it would fire. Raises `BadRequest`, which names the field, and `Changed`.
        """
        draft = Draft(
            body=body, content_type=content_type, key=key, headers=headers, tag=tag, ordering_key=ordering_key
        )
        call = schedules.put_schedule(
            *(name, draft, self._json),
            match=match,
            dry_run=dry_run,
            misfire=misfire,
            jitter=jitter,
            every=every,
            starts_at=starts_at,
            ends_at=ends_at,
            topic=topic,
            cron=cron,
            timezone=timezone,
            overlap=overlap,
            group=group,
            paused=paused,
        )
        return await self._transport.send(call)

    @api_call
    async def schedule(self, name: str) -> Schedule:
        """A schedule, and when it fires next. Raises `NotFound`."""
        return await self._transport.send(schedules.schedule(name))

    @api_pages
    def schedules(self) -> Call[Page[Schedule]]:
        """All schedules by name, page by page."""
        return schedules.schedules()

    @api_call
    async def delete_schedule(self, name: str, *, match: int | None = None) -> tuple[Fire, ...]:
        """Removes a schedule, and the message that waits; the fire times that had come and are not sent any more.
        Raises `NotFound`, `Changed`."""
        return await self._transport.send(schedules.delete_schedule(name, match=match))

    @api_call
    async def pause_schedule(self, name: str) -> Schedule:
        """It sends nothing from now on."""
        return await self._transport.send(schedules.switch(name, "pause"))

    @api_call
    async def resume_schedule(self, name: str) -> Schedule:
        """It goes on with its next fire time; what was in between is left out."""
        return await self._transport.send(schedules.switch(name, "resume"))

    @api_call
    async def run_schedule(self, name: str) -> str:
        """Sends a message of it now, paused or not; the message's id."""
        with spans.sending("", schedule=name) as sent:
            return sent.done(await self._transport.send(schedules.run(name)))

    @api_call
    async def backfill_schedule(
        self, name: str, start: datetime | str, end: datetime | str, *, dry_run: bool = False
    ) -> dict[str, int]:
        """Sends the messages of fire times from `start` to before `end` that were not sent: how many `times` there are,
        1000 at most, and how many were `sent`, or would be."""
        request = {"from": instant_out(start, "start"), "to": instant_out(end, "end"), "dry_run": dry_run}
        with spans.sending("", schedule=name):
            return await self._call("POST", f"{schedules.path(name)}/backfill", request)

    @api_call
    async def next_times(self, name: str, count: int = 5) -> list[datetime]:
        """When a schedule fires next; of one that is paused, when it would."""
        return await self._transport.send(schedules.next_times(name, count))

    @api_pages
    def fires(self, name: str) -> Call[Page[Fire]]:
        """What became of a schedule's fire times, the latest first, page by page."""
        return schedules.fires(name)

    # Claims, one call each

    @api_call
    async def claim(
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
        tells_begun: bool = False,
    ) -> Claim | None:
        """Up to `max` messages for `lease`, waiting up to `wait` for the first; None when there are none.

        `start` is where a new group begins, or a new client of a broadcast topic: `"earliest"` or `"latest"`. Messages
        with other `tags` than these are skipped for the group. Of a broadcast topic, `after` is `next` of the claim
        before, and confirms it (`""` at first); without it the client's offset moves with the answer. With
        `tells_begun` you say in `extend` which messages you have begun: the others go back uncounted when the lease
        runs out.
        """
        since = spans.now()
        claim = await self._transport.send(
            claims.claim(
                topic,
                group,
                client=client or self._identity.client(),
                size=max,
                wait=milliseconds(wait, "wait"),
                lease=milliseconds(lease, "lease"),
                tags=arguments.tags(tags),
                start=start,
                after=after,
                tells=tells_begun,
            )
        )
        spans.received(claim, since)
        return claim

    @api_call
    async def ack(self, claim: Claim | str, ids: Iterable[Named] | None = None) -> int:
        """Settles messages of a claim, all when `ids` is left out; returns how many. Raises `LeaseLost`."""
        named = arguments.ids(ids)
        with spans.settling("ack", claim, None if named is None else len(named)):
            return await self._transport.send(
                claims.ack(arguments.claim_id(claim), named, arguments.claim_place(claim))
            )

    @api_call
    async def fail(
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
        named = arguments.ids(ids)
        with spans.settling("fail", claim, None if named is None else len(named)):
            return await self._transport.send(
                claims.fail(
                    arguments.claim_id(claim),
                    named,
                    reason=reason,
                    retry_after=retry_after,
                    count=count,
                    place=arguments.claim_place(claim),
                )
            )

    @api_call
    async def extend(self, claim: Claim | str, lease: Duration, *, begun: Sequence[str] = ()) -> datetime:
        """A lease that runs from now; returns its end. `begun` are ids of messages that you have begun to handle.
        Raises `LeaseLost`."""
        call = claims.extend(arguments.claim_id(claim), milliseconds(lease, "lease"), begun)
        return await self._transport.send(call)

    @api_call
    async def renew(self, client: str | None = None) -> datetime:
        """A sign of life of a consumer; from the first on it is dead 15 s after the last, and its claims end.

        A claim and an open long poll are signs, too. `consume` and `run` send their own. Returns until when it lives.
        """
        alive = await self._transport.send(claims.renew(client or self._identity.client()))
        return alive.until

    @api_call
    async def deregister(self, client: str | None = None) -> int:
        """The consumer goes: its claims end at once, and what is open comes to others. Returns how many claims."""
        return await self._transport.send(claims.deregister(client or self._identity.client()))

    # Looking

    @api_pages
    def clients(self) -> Call[Page[dict[str, Any]]]:
        """The clients there are, by name, with what they hold, page by page."""
        return paged("/v1/clients", {}, lambda page: page["clients"])

    @api_call
    async def nodes(self) -> list[dict[str, Any]]:
        """The servers that work on the same database, as the one that is asked knows them."""
        found: list[dict[str, Any]] = (await self._call("GET", "/v1/nodes"))["nodes"]
        return found

    @api_call
    async def activity(self) -> dict[str, Any]:
        """What the server that is asked did in each second of the last five minutes, and how late messages were."""
        return await self._call("GET", "/v1/activity")

    @api_call
    async def wheel(self) -> dict[str, Any]:
        """What lies in the 3600 slots of the wheel of the server that is asked."""
        return await self._call("GET", "/v1/wheel")

    @api_call
    async def reports(self) -> list[dict[str, Any]]:
        """The reports of the pipeline that the server shows, the latest first."""
        found: list[dict[str, Any]] = (await self._call("GET", "/v1/reports"))["reports"]
        return found

    @api_call
    async def guards(self) -> list[dict[str, Any]]:
        """The guards that the server declares, and what waits for their answers there."""
        found: list[dict[str, Any]] = (await self._call("GET", "/v1/guards"))["guards"]
        return found

    @api_call
    async def message(self, id: Named) -> dict[str, Any]:  # noqa: A002 - the contract's word
        """The message, its state and its `life`, as the server has them."""
        return await self._call("GET", f"/v1/messages/{part(id_of(id))}")

    @api_call
    async def pull(
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
        path = f"/v1/topics/{part(topic)}/queues/{part(str(queue))}/messages"
        params = {"offset": offset, "max": max, "wait": patience}
        call = Call("GET", path, document_of, params=params, wait=patience / 1000)
        document = await self._transport.send(call)
        messages = tuple(Message.read(record, topic) for record in document["messages"])
        return Pulled(messages, document["next_offset"])

    @api_pages
    def find(
        self,
        topic: str,
        *,
        key: str | None = None,
        state: Literal["scheduled", "published", "cancelled", "suppressed", "claimed", "retrying", "parked", "dead"]
        | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
    ) -> Call[Page[dict[str, Any]]]:
        """The messages of a topic, of a key, or in a state, due from `start` to before `end`, page by page.

        Without key and state: all that wait, the next due first, and all in the stream, the newest first, some of each
        at a time.
        """
        return operations.find(topic, key=key, state=state, start=start, end=end)

    @api_call
    async def upcoming(
        self,
        topic: str | None = None,
        *,
        buckets: int = 24,
        width: Duration = "1h",
        start: datetime | str | None = None,
    ) -> dict[str, Any]:
        """How many messages of a topic, or of all, fall due in each stretch of `width` from now on, or from `start`.

        Many messages, of any topic, are not all counted: then `counted_until` is where to go on with `start`.
        """
        params: dict[str, str | int] = {"buckets": buckets, "width": milliseconds(width, "width")}
        if start is not None:
            params["from"] = instant_out(start, "start")
        path = "/v1/upcoming" if topic is None else f"/v1/topics/{part(topic)}/upcoming"
        return await self._call("GET", path, params=params)

    @api_call
    async def topics(
        self, sort: Literal["name", "rate", "backlog"] = "name", *, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """All topics with their counts, rates of the last minute and backlogs, a call for each thousand; or the first
        `limit`, 1 to 1000, in one call."""
        if limit is not None:
            page = await self._call("GET", "/v1/topics", params={"sort": sort, "max": limit})
            return cast("list[dict[str, Any]]", page["topics"])
        pages = self._transport.pages(
            paged("/v1/topics", {"sort": sort, "max": 1000}, lambda page: cast("list[dict[str, Any]]", page["topics"]))
        )
        # One whose rank has changed meanwhile may come twice.
        topics = {topic["topic"]: topic async for topic in pages}
        return list(topics.values())

    @api_call
    async def topic(self, topic: str) -> dict[str, Any]:
        """One topic with its counts, queues and groups."""
        return await self._call("GET", f"/v1/topics/{part(topic)}")

    @api_call
    async def put_topic(
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
        max_pending: int | Literal["default"] | None = None,
        max_rate: int | Literal["default"] | None = None,
        release_rate: int | Literal["default"] | None = None,
    ) -> dict[str, Any]:
        """Makes a topic, or changes what is named. `"default"` for `ladder`, `retention` or a limit takes it back.

        `sequencer` says who draws the offsets: the store, or on MySQL a Redis. `max_pending`: messages that may wait
        for their time; `max_rate`: messages that are accepted a second. What is beyond is `Unavailable` (429).
        `release_rate`: of what falls due, so many a second go into the stream; the rest waits.
        """
        settings = {
            "kind": kind,
            "queues": queues,
            "ordered": ordered,
            "retention": arguments.or_default(retention, arguments.retention),
            "ladder": arguments.or_default(ladder, arguments.rungs),
            "jitter": jitter,
            "sequencer": sequencer,
            "max_pending": arguments.or_default(max_pending, int),
            "max_rate": arguments.or_default(max_rate, int),
            "release_rate": arguments.or_default(release_rate, int),
        }
        return await self._call("PUT", f"/v1/topics/{part(topic)}", arguments.given(settings))

    @api_call
    async def groups(
        self,
        sort: Literal["name", "backlog", "dead_letters"] = "name",
        *,
        topic: str | None = None,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """The groups of all topics, or of one, with their counts, a call for each thousand; or the first `limit`, 1 to
        1000, in one call. `backlog` and `dead_letters` have those first that have most."""
        params = arguments.given({"sort": sort, "topic": topic, "max": 1000 if limit is None else limit})
        if limit is not None:
            page = await self._call("GET", "/v1/groups", params=params)
            return cast("list[dict[str, Any]]", page["groups"])
        pages = self._transport.pages(
            paged("/v1/groups", params, lambda page: cast("list[dict[str, Any]]", page["groups"]))
        )
        # One whose rank has changed meanwhile may come twice.
        groups = {(group["topic"], group["group"]): group async for group in pages}
        return list(groups.values())

    @api_call
    async def group(self, topic: str, group: str) -> dict[str, Any]:
        """A group's backlog, offsets, clients, retries per rung and dead letters."""
        return await self._call("GET", f"/v1/topics/{part(topic)}/groups/{part(group)}")

    @api_call
    async def put_group(
        self,
        topic: str,
        group: str,
        *,
        ladder: Sequence[Duration] | Literal["default"] | None = None,
        jitter: float | None = None,
        start: datetime | str | None = None,
        on_exhausted: Literal["dead", "block"] | None = None,
        concurrency: int | Literal["default"] | None = None,
    ) -> dict[str, Any]:
        """Makes a group, or changes what is named. `"default"` for `ladder` or `concurrency` takes it back.

        `start` is where a group that is made begins: `"earliest"`, `"latest"` or a time. `seek` moves one there is.
        `concurrency`: messages in its clients' hands at once, at most.
        """
        settings = {
            "ladder": arguments.or_default(ladder, arguments.rungs),
            "jitter": jitter,
            "from": None if start is None else instant_out(start, "start"),
            "on_exhausted": on_exhausted,
            "concurrency": arguments.or_default(concurrency, int),
        }
        return await self._call("PUT", f"/v1/topics/{part(topic)}/groups/{part(group)}", arguments.given(settings))

    @api_call
    async def put_push(
        self,
        topic: str,
        group: str,
        url: str,
        secret: str | Sequence[str],
        *,
        timeout: Duration | None = None,
        max_in_flight: int | None = None,
    ) -> dict[str, Any]:
        """Has the messages of a group posted to an endpoint, signed with the secret, or with each of several.

        A secret is `whsec_` and 24 to 64 random bytes in base64. `timeout` is of one post. What is left out is the
        server's, whatever it was before.
        """
        settings = {
            "url": url,
            "secret": secret if isinstance(secret, str) else list(secret),
            "timeout": None if timeout is None else duration_out(timeout, "timeout"),
            "max_in_flight": max_in_flight,
        }
        return await self._call("PUT", _push(topic, group), arguments.given(settings))

    @api_call
    async def get_push(self, topic: str, group: str) -> dict[str, Any]:
        """Where the messages of a group are posted to, and whether that works. Raises `NotFound`."""
        return await self._call("GET", _push(topic, group))

    @api_call
    async def delete_push(self, topic: str, group: str) -> None:
        """Has no more messages of a group posted. Raises `NotFound`."""
        await self._call("DELETE", _push(topic, group))

    @api_pages
    def dead(self, topic: str, group: str) -> Call[Page[DeadLetter]]:
        """All dead letters of a group, page by page."""
        return operations.dead(topic, group)

    @api_pages
    def dead_letters(
        self,
        topic: str,
        group: str,
        *,
        key: str | None = None,
        reason: str | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
    ) -> Call[Page[DeadLetter]]:
        """Dead letters with this key, with this text in their last reason, that died from `start` to before `end`."""
        return operations.dead(topic, group, key=key, reason=reason, start=start, end=end)

    # What operators do

    @api_call
    async def seek(
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
        return await self._transport.send(operations.seek(topic, group, to, queue=queue, dry_run=dry_run))

    @api_call
    async def replay(
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
        call = operations.replay(topic, group, start, end, queue=queue, name=name, dry_run=dry_run)
        return await self._count(call, on_progress)

    @api_call
    async def redrive(
        self,
        topic: str,
        group: str,
        ids: Iterable[Named] | None = None,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        key: str | None = None,
        tag: str | None = None,
        reason: str | None = None,
        rate: int | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Gives dead letters back to their group, all, or those that fit what is said of them; how many.

        `reason` is that of the last attempt; with `*` at its end, how that begins. `rate` is how many a second at most.
        An exception in `on_progress` stops it; what is done stays done.
        """
        named = arguments.ids(ids)
        which = operations.which_letters(named, start=start, end=end, key=key, tag=tag, reason=reason)
        call = operations.letters("redrive", topic, group, which, rate=rate, dry_run=dry_run)
        return await self._count(call, on_progress)

    @api_call
    async def purge(
        self,
        topic: str,
        group: str,
        ids: Iterable[Named] | None = None,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        key: str | None = None,
        tag: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Removes dead letters for good, all, or those that fit what is said of them, as with `redrive`; how many."""
        named = arguments.ids(ids)
        which = operations.which_letters(named, start=start, end=end, key=key, tag=tag, reason=reason)
        call = operations.letters("purge", topic, group, which, dry_run=dry_run)
        return await self._count(call, on_progress)

    async def _count(self, call: Call[Page[int]], on_progress: OnProgress | None) -> int:
        """What was done, from the first page to the last."""
        count, following = 0, call
        while True:
            page = await self._transport.send(following)
            count += sum(page.items)
            if on_progress is not None:
                on_progress(count)
            if page.next is None:
                return count
            following = page.next

    @api_call
    async def erase(self, id: Named) -> Erased:  # noqa: A002 - the contract's word
        """Erases what a message says: body, headers and why its attempts failed, in the store and, with the archive's
        next run, in the lake. Its life stays. Raises `Conflict` while it waits: cancel it first; `NotFound`."""
        return await self._transport.send(operations.erase(id))

    @api_call
    async def pause(self, topic: str, group: str) -> dict[str, Any]:
        """Pauses a group: nobody is given anything of it until it is resumed. Timers, retries and acks go on.

        Other servers on the same database follow within a second. Raises `Conflict` of a broadcast topic.
        """
        return await self._call("POST", f"/v1/topics/{part(topic)}/groups/{part(group)}/pause")

    @api_call
    async def resume(self, topic: str, group: str) -> dict[str, Any]:
        """Resumes a group that is paused; one that is not stays as it is."""
        return await self._call("POST", f"/v1/topics/{part(topic)}/groups/{part(group)}/resume")

    @api_call
    async def delete_group(self, topic: str, group: str) -> None:
        """Removes a group for good: its position, retries and dead letters. Its claims are over at once."""
        await self._call("DELETE", f"/v1/topics/{part(topic)}/groups/{part(group)}")

    @api_call
    async def delete_topic(self, topic: str, *, force: bool = False) -> None:
        """Removes a topic for good, with its groups and messages.

        Raises `Conflict` while messages wait or are unsettled; with `force` they are dropped.
        """
        params = {"force": "true"} if force else None
        call = Call("DELETE", f"/v1/topics/{part(topic)}", document_of, params=params, wait=_SCAN)
        await self._transport.send(call)

    @api_call
    async def metrics(self) -> str:
        """What `GET /metrics` tells: text for Prometheus."""
        return await self._transport.send(Call("GET", "/metrics", lambda reply: reply.text))

    @api_call
    async def ready(self) -> bool:
        """Whether the server takes calls at this moment; never raises for a server that is away."""
        try:
            await self._transport.send(Call("GET", "/readyz", document_of, once=True))
        except TarryError:
            return False
        return True

    async def _call(
        self,
        method: str,
        path: str,
        request: Mapping[str, Any] | None = None,
        params: Mapping[str, str | int] | None = None,
    ) -> dict[str, Any]:
        content = None if request is None else encode(request)
        return await self._transport.send(Call(method, path, document_of, content, params=params))


def _push(topic: str, group: str) -> str:
    return f"/v1/topics/{part(topic)}/groups/{part(group)}/push"
