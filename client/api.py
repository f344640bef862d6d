"""The API as methods, one for each call, for `Tarry` and `AsyncTarry`, which add `consume` and `run`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, Literal, TypeVar

from . import arguments, claims, shares, spans
from .batches import MAX_BYTES, MAX_MESSAGES, cut, receipt, receipts
from .bodies import written
from .calls import Call, Page, document_of, group_path, paged, part
from .durations import Duration, duration_out, instant_in, instant_out, milliseconds
from .errors import TarryError
from .fronts import api_call, api_pages
from .identity import new_idempotency_key
from .operations import OperatorCalls
from .records import Claim, Draft, Failed, Message, Named, Pulled, Receipt, Rescheduled, id_of
from .schedules import ScheduleCalls
from .timers import TimerCalls, cancelled

T = TypeVar("T")


class Api(TimerCalls, ScheduleCalls, OperatorCalls):
    """A method for every call of the API."""

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
        `deliver_between` (from, to). From `expires_at` on it is not handed out any more, not even as a retry.

        `guard` names a guard that the server declares: at the due time it is asked, with the `key`, whether to send the
        message.
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

        If a batch fails, those before it stay published; `on_batch` was called with their receipts.
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

    @api_call
    async def cancel(self, id: Named) -> Literal["cancelled", "suppressed"]:  # noqa: A002 - the contract's word
        """Cancels a message; once this returns, it is never delivered. `suppressed`: its guard had ended it before.

        Raises `TooLate` if the message was handed to the stream before, and `NotFound`.
        """
        return await self._transport.send(Call("DELETE", f"/v1/messages/{part(id_of(id))}", cancelled))

    @api_call
    async def nudge(self, topic: str | None = None) -> None:
        """Call it after the commit of an outbox: the server looks for its messages at once, not within a second."""
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
        """Claims up to `max` messages for `lease`, waiting up to `wait` for the first; returns None if there are none.

        `start` is where a new group begins, or a new client of a broadcast topic: `"earliest"` or `"latest"`. Messages
        with other `tags` than these are skipped for the group. On a broadcast topic, `after` is `next` of the previous
        claim, and confirms it (`""` at first); without it the client's offset moves with the answer. With `tells_begun`
        you say in `extend` which messages you have begun: the others go back uncounted when the lease runs out.
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
        """Renews a lease, which runs from now; returns its end. `begun` are ids of messages that you have begun to
        handle. Raises `LeaseLost`."""
        call = claims.extend(arguments.claim_id(claim), milliseconds(lease, "lease"), begun)
        return await self._transport.send(call)

    @api_call
    async def renew(self, client: str | None = None) -> datetime:
        """Sends a consumer's sign of life; from the first on it counts as dead 15 s after the last, and its claims end.

        Claims and open long polls are signs, too. `consume` and `run` send their own. Returns until when it is alive.
        """
        alive = await self._transport.send(claims.renew(client or self._identity.client()))
        return alive.until

    @api_call
    async def deregister(self, client: str | None = None) -> int:
        """Deregisters a consumer: its claims end at once, and open messages go to others. Returns how many claims."""
        return await self._transport.send(claims.deregister(client or self._identity.client()))

    # Looking

    @api_pages
    def clients(self) -> Call[Page[dict[str, Any]]]:
        """The known clients by name, with what they hold, page by page."""
        return paged("/v1/clients", {}, lambda page: page["clients"])

    @api_call
    async def nodes(self) -> list[dict[str, Any]]:
        """The servers that work on the same database, as the answering one knows them."""
        found: list[dict[str, Any]] = (await self._call("GET", "/v1/nodes"))["nodes"]
        return found

    @api_call
    async def activity(self) -> dict[str, Any]:
        """How much the answering server did in each second of the last five minutes, and how late messages were."""
        return await self._call("GET", "/v1/activity")

    @api_call
    async def wheel(self) -> dict[str, Any]:
        """The content of the 3600 slots of the answering server's wheel."""
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

        If there are too many messages (of any topic) to count, `counted_until` says where to go on, as `start`.
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
        return await self._ranked("topics", {"sort": sort}, limit, "topic")

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
        """Makes a topic, or changes the given settings. `"default"` resets `ladder`, `retention` or a limit.

        `sequencer` says who draws the offsets: the store, or on MySQL a Redis. `max_pending`: most messages that may
        wait for their time; `max_rate`: most messages accepted per second; beyond these a publish raises `Unavailable`
        (429). `release_rate`: most messages per second that go into the stream when they fall due; the rest waits.
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
        1000, in one call. Sorting by `backlog` or `dead_letters` puts the largest first."""
        return await self._ranked("groups", {"sort": sort, "topic": topic}, limit, "topic", "group")

    async def _ranked(
        self, what: str, params: Mapping[str, str | None], limit: int | None, *named: str
    ) -> list[dict[str, Any]]:
        """The entries of a list, each once by its names: one whose rank changes between two pages may come twice."""
        entries: Callable[[dict[str, Any]], list[dict[str, Any]]] = itemgetter(what)
        first = paged(f"/v1/{what}", {**params, "max": 1000 if limit is None else limit}, entries)
        if limit is not None:
            return list((await self._transport.send(first)).items)
        found = {tuple(one[name] for name in named): one async for one in self._transport.pages(first)}
        return list(found.values())

    @api_call
    async def group(self, topic: str, group: str) -> dict[str, Any]:
        """A group's backlog, offsets, clients, retries per rung and dead letters."""
        return await self._call("GET", group_path(topic, group))

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
        """Makes a group, or changes the given settings. `"default"` resets `ladder` or `concurrency`.

        `start` is where a new group begins: `"earliest"`, `"latest"` or a time; `seek` moves an existing one.
        `concurrency`: most messages that its clients may hold at once.
        """
        settings = {
            "ladder": arguments.or_default(ladder, arguments.rungs),
            "jitter": jitter,
            "from": None if start is None else instant_out(start, "start"),
            "on_exhausted": on_exhausted,
            "concurrency": arguments.or_default(concurrency, int),
        }
        return await self._call("PUT", group_path(topic, group), arguments.given(settings))

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

        A secret is `whsec_` and 24 to 64 random bytes in base64. `timeout` is for one post. Settings that are left out
        become the server's defaults, whatever they were before.
        """
        settings = {
            "url": url,
            "secret": secret if isinstance(secret, str) else list(secret),
            "timeout": None if timeout is None else duration_out(timeout, "timeout"),
            "max_in_flight": max_in_flight,
        }
        return await self._call("PUT", f"{group_path(topic, group)}/push", arguments.given(settings))

    @api_call
    async def get_push(self, topic: str, group: str) -> dict[str, Any]:
        """Where the messages of a group are posted to, and whether that works. Raises `NotFound`."""
        return await self._call("GET", f"{group_path(topic, group)}/push")

    @api_call
    async def delete_push(self, topic: str, group: str) -> None:
        """Stops posting the messages of a group. Raises `NotFound`."""
        await self._call("DELETE", f"{group_path(topic, group)}/push")

    @api_call
    async def metrics(self) -> str:
        """The text of `GET /metrics`, for Prometheus."""
        return await self._transport.send(Call("GET", "/metrics", lambda reply: reply.text))

    @api_call
    async def ready(self) -> bool:
        """Whether the server takes calls at this moment; False, and no error, if it is away."""
        try:
            await self._transport.send(Call("GET", "/readyz", document_of, once=True))
        except TarryError:
            return False
        return True
