"""A pusher: claims the messages of one group as any client does, and posts them to its endpoint.

It holds nothing but ordinary claims, so whatever happens to this server, messages that were not acked come again. While
the endpoint is unavailable, or has asked to be left alone, attempts that fail are not counted: the messages keep their
rung.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import structlog
import trio
from attrs import define, field, frozen

from ...store.content import BYTES, LABELS, as_json, headers_of
from ...store.erased import erased_at_of
from ...store.errors import StoreError
from ...store.groups import push
from ...store.groups.claim_ids import format_claim
from ...store.groups.push import PushRow
from ...store.records import Claim, ClaimRequest, Delivered, Group, Settled
from ...store.store import Store
from ..alarm import Alarm
from ..clock import Clock
from ..durations import format_time
from ..engine.consume.groups import Groups
from ..errors import Busy, Overloaded, ServiceError, Stopping, UnknownClaim
from ..metrics import Metrics
from ..outages import tell_failure
from ..rounds import until_done
from ..trace_context import trace_of
from .breaker import Breaker
from .connections import Connections
from .endpoint import Endpoint, read_endpoint
from .signing import read_secret, signatures
from .verdicts import Verdict, verdict_of

if TYPE_CHECKING:
    # Loaded with the first post: most servers never push, and the import would slow down their start.
    from .posting import Poster

_WAIT = 30_000
"""Milliseconds that a claim waits for messages."""
_REST = 1.0
"""Seconds until a claim that failed is tried again."""
_LONG = 300.0
"""Seconds for which a breaker may be open before the alarm is rung."""
_LONGEST_HEADERS = 8 << 10
"""The most bytes of a message's own headers that are passed on: most servers take no more."""
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "%") + " "

log = structlog.get_logger()

T = TypeVar("T")


@frozen
class PushContext:
    """What all pushers of a server share. `poster` returns the poster, which is made at the first call; `lease` is in
    milliseconds; `chance` draws from 0 to 1."""

    store: Store
    groups: Groups
    clock: Clock
    metrics: Metrics
    alarm: Alarm
    poster: "Callable[[], Poster]"
    lease: int
    leave: Callable[[str], Awaitable[object]]
    """Deregisters a client, which ends its claims and frees the queues that it owns."""
    asked: Callable[[], Awaitable[object]]
    """Called before a claim, so that groups paused at other servers are known here."""
    chance: Callable[[], float] = secrets.SystemRandom().random


@define(eq=False)
class _Held:
    """A claim of which messages are being posted."""

    name: str
    lost: bool = False
    posting: set[int] = field(factory=set[int])
    """Ids of the messages being posted; the others were not begun."""


class Pusher:
    """The pusher of one group. `run` it in a task until `end`."""

    def __init__(self, context: PushContext, group: Group, row: PushRow, client: str, share: int) -> None:
        self._context = context
        self._group = group
        self._client = client
        self._share = share
        """The most messages that this server may have in flight."""
        self._in_flight = 0
        self._wake = trio.Event()
        self._asking: trio.CancelScope | None = None
        self._posting: set[trio.CancelScope] = set()
        self._connections = Connections()
        self._deadline = float("inf")
        self._ended = False
        self.over = False
        """Whether it has ended, and nothing of it is under way."""
        self._set(row)

    def _set(self, row: PushRow) -> None:
        self.row = row
        self._off = row.off_at is not None
        self._breaker = Breaker(self._context.chance)
        self._left_alone_until = 0.0
        self._rung = False
        self._keys = [read_secret(text) for text in row.secrets.split()]

    @property
    def names(self) -> tuple[str, str]:
        return self._group.topic.name, self._group.name

    def of(self, group: Group) -> bool:
        """Whether it belongs to this group. After a failover that lost a group, another group may have its id."""
        return (group.topic.id, *self.names) == (self._group.topic.id, group.topic.name, group.name)

    def see(self, row: PushRow, share: int) -> None:
        """Takes over the current row, and this server's share of the messages in flight."""
        if row.changed_at != self.row.changed_at:
            self._set(row)
        else:
            self.row = row
            self._off |= row.off_at is not None  # the endpoint may have told another server
        self._share = share
        self._stir()

    def end(self, at: float = float("inf")) -> None:
        """Stops claiming. Posts under way may finish until `at`, in trio's time; then their messages are given back
        uncounted."""
        self._ended = True
        self._deadline = min(self._deadline, at)
        for scope in self._posting:
            scope.deadline = min(scope.deadline, self._deadline)
        self._stir()

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as beside:
                beside.start_soon(self._connections.run)
                async with trio.open_nursery() as nursery:
                    await self._claim_on(nursery)
                beside.cancel_scope.cancel()
            if self._group.topic.ordered:  # free its queues for other clients at once
                with trio.move_on_after(_REST):
                    await self._insist(partial(self._context.leave, self._client))
        finally:
            self.over = True

    async def _claim_on(self, nursery: trio.Nursery) -> None:
        while not self._ended:
            room = self._room()
            if not room:
                await self._rest()
            elif (claim := await self._claim(room)) is not None:
                messages = [message for one in claim.ranges for message in one.messages]
                self._in_flight += len(messages)
                nursery.start_soon(self._post_all, claim, messages)

    # When to claim, and how many

    def _room(self) -> int:
        """How many messages may be claimed now."""
        now = trio.current_time()
        if self._ended or self._off or now < self._left_alone_until:
            return 0
        if self._breaker.open:
            return int(not self._in_flight and self._share > 0 and now >= self._breaker.probe_at)
        return max(0, self._share - self._in_flight)

    async def _rest(self) -> None:
        now = trio.current_time()
        ahead = [at for at in (self._left_alone_until, self._breaker.probe_at) if at > now]
        with trio.move_on_at(min(ahead, default=float("inf"))):
            await self._wake.wait()
        self._wake = trio.Event()

    def _stir(self) -> None:
        """Wakes the loop after a change; cancels a waiting claim whose messages may not be posted now."""
        self._wake.set()
        if self._asking is not None and not self._room():
            self._asking.cancel()

    async def _claim(self, room: int) -> Claim | None:
        began = trio.current_time()
        claim: Claim | None = None
        with trio.CancelScope() as self._asking:
            try:
                request = ClaimRequest(self._client, room, self._context.lease, tells=True)
                await self._context.asked()
                claim = await self._context.groups.claim(self._group, request, _WAIT)
            except (StoreError, ServiceError) as error:
                tell_failure("push_waits", error, **self._names)
            if claim is None and trio.current_time() - began < _REST:
                await trio.sleep(_REST)  # the claim did not wait: the group may be gone, or the server is stopping
        self._asking = None
        return claim

    # Posting the messages of a claim

    async def _post_all(self, claim: Claim, messages: Sequence[Delivered]) -> None:
        held = _Held(format_claim(*(one.key for one in claim.ranges)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep, held)
            async with trio.open_nursery() as lanes:
                for lane in self._lanes(messages):
                    lanes.start_soon(self._post_lane, held, lane)
            nursery.cancel_scope.cancel()

    def _lanes(self, messages: Sequence[Delivered]) -> list[list[Delivered]]:
        """The messages, grouped into lanes that are posted one after the other: on an ordered topic, those of one
        ordering key."""
        lanes: dict[str | int, list[Delivered]] = {}
        for message in messages:
            ordered = self._group.topic.ordered and message.ordering_key is not None
            lanes.setdefault(message.ordering_key or "" if ordered else message.id, []).append(message)
        return list(lanes.values())

    async def _keep(self, held: _Held) -> None:
        """Extends the lease while messages of the claim are being posted."""
        while not held.lost:
            await trio.sleep(self._context.lease / 3000)
            begun = sorted(held.posting)
            settle = partial(self._context.groups.settle, held.name, "extend", lease=self._context.lease, begun=begun)
            held.lost = await self._settle(settle)

    async def _post_lane(self, held: _Held, lane: Sequence[Delivered]) -> None:
        left = len(lane)
        try:
            for message in lane:
                went_on = not held.lost and await self._begin(held, message) and await self._post_one(held, message)
                if not went_on:
                    return  # the messages behind it leave the claim with it
                left -= 1
                self._in_flight -= 1
                self._stir()
        finally:
            self._in_flight -= left
            self._stir()

    async def _begin(self, held: _Held, message: Delivered) -> bool:
        """Whether the message may be posted. If it was lost before, it is first noted as begun, so that another loss
        counts as an attempt."""
        held.posting.add(message.id)
        begin = partial(self._context.groups.settle, held.name, "begin", begun=[message.id])
        return not message.losses or not await self._settle(begin)

    async def _post_one(self, held: _Held, message: Delivered) -> bool:
        """Posts a message and settles it; returns whether it was sent and acked."""
        row = self.row
        verdict = self._held_up() or await self._attempt(message)
        if row.changed_at == self.row.changed_at:
            await self._note(row, message, verdict)
        fail = partial(self._context.groups.settle, held.name, "fail", ids=[message.id], reason=verdict.reason)
        if verdict.kind == "sent":
            return not await self._settle(partial(self._context.groups.settle, held.name, "ack", ids=[message.id]))
        if verdict.kind == "failed" or (verdict.kind == "away" and not self._breaker.open):
            await self._settle(fail)
        else:
            rest = max(verdict.rest, self._breaker.left(trio.current_time()))
            await self._settle(partial(fail, retry_after=rest, count=False))
        return False

    def _held_up(self) -> Verdict | None:
        """The verdict if a claimed message must not be posted now, or None."""
        now = trio.current_time()
        if self._off or self._deadline <= now:
            return Verdict("later", "nothing is posted any more")
        if now < self._left_alone_until:
            return Verdict("later", "the endpoint asked to be left alone", round((self._left_alone_until - now) * 1000))
        if self._breaker.open and now < self._breaker.probe_at:
            return Verdict("later", "the endpoint is away")
        return None

    async def _attempt(self, message: Delivered) -> Verdict:
        from .posting import Post, Unreached

        poster, began = self._context.poster(), trio.current_time()
        verdict = Verdict("later", "the server stopped before the endpoint answered")
        with trio.CancelScope(deadline=self._deadline) as scope:
            self._posting.add(scope)
            try:
                endpoint = read_endpoint(self.row.url, poster.allowed)
                headers = self._headers(endpoint, message)
                # An erased message has no body; its content type holds the erasure, which is sent in a header instead.
                content_type = BYTES if "tarry-erased-at" in headers else message.content_type
                if content_type is None:
                    content_type = BYTES if as_json(message.body) is None else "application/json"
                post = Post(endpoint, headers, message.body, content_type)
                head = await poster.post(post, self.row.timeout / 1000, self._connections)
                verdict = verdict_of(head.status, head.headers, self._context.clock.now())
            except Unreached as error:
                verdict = Verdict("away", str(error), found=error.found)
                log.debug("push_unreached", because=error.found, **self._names)
            except ValueError as error:
                verdict = Verdict("away", str(error))
            finally:
                self._posting.discard(scope)
        self._context.metrics.pushed(*self.names, trio.current_time() - began, sent=verdict.kind == "sent")
        return verdict

    def _headers(self, endpoint: Endpoint, message: Delivered) -> dict[str, str]:
        id_, timestamp = str(message.id), self._context.clock.now() // 1000
        own = headers_of(message.headers) or {}
        erased_at = erased_at_of(message.content_type)
        told = self._names | {
            "erased-at": None if erased_at is None else format_time(erased_at),
            "attempt": str(message.attempt),
            **{name.replace("_", "-"): getattr(message, name) for name in LABELS},
        }
        return {
            "Host": endpoint.netloc,
            "User-Agent": "tarry",
            "webhook-id": id_,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures(self._keys, id_, timestamp, message.body),
            **{f"tarry-{name}": quote(value, safe=_PLAIN).strip() for name, value in told.items() if value is not None},
            **_own_headers(own),
            **trace_of(own),  # under its own name, too, so that tracing at the endpoint continues the trace
        }

    # The outcome of a post

    async def _note(self, row: PushRow, message: Delivered, verdict: Verdict) -> None:
        """Notes what the outcome of a post tells of the endpoint."""
        now, at = trio.current_time(), self._context.clock.now()
        if verdict.kind == "sent":
            if self._breaker.sent() or self.row.broken_at is not None:
                await self._tell_mended(row, at)
        elif verdict.kind == "failed":
            self._breaker.refused(now)
        elif verdict.kind == "later":
            self._left_alone_until = max(self._left_alone_until, now + verdict.rest / 1000)
        elif verdict.kind == "away":
            self._breaker.failed(message.id, now)
            if self._breaker.open:
                await self._tell_broken(row, verdict, now, at)
        elif not self._off:
            self._off = True
            log.warning("push_switched_off", because=verdict.reason, **self._names)
            self._context.alarm.ring("push_switched_off", at=format_time(at), because=verdict.reason, **self._names)
            await self._insist(lambda: self._context.store.write(push.switch_off, row, verdict.reason, at))
        self._context.metrics.push_broken(*self.names, broken=self._breaker.open)
        self._stir()

    async def _tell_mended(self, row: PushRow, at: int) -> None:
        if self._rung:  # the operator who was alarmed hears that it is over, and is alarmed again the next time
            self._rung = False
            self._context.alarm.ring("push_mended", at=format_time(at), **self._names)
        await self._write(lambda: self._context.store.write(push.mended, row))

    async def _tell_broken(self, row: PushRow, verdict: Verdict, now: float, at: int) -> None:
        opened_at, reason = self._breaker.opened_at, verdict.reason
        if opened_at == now:
            log.warning("push_broken", because=verdict.found or reason, **self._names)
        elif opened_at is not None and now - opened_at >= _LONG and not self._rung:
            self._rung = True
            self._context.alarm.ring("push_broken", at=format_time(at), because=reason, **self._names)
        await self._write(lambda: self._context.store.write(push.broke, row, reason, at))

    @property
    def _names(self) -> dict[str, str]:
        topic, group = self.names
        return {"topic": topic, "group": group}

    async def _settle(self, settle: Callable[[], Awaitable[Settled]]) -> bool:
        """Settles, trying again until the store can; returns whether it was too late because the lease is over."""
        try:
            return (await self._insist(settle)).lost
        except UnknownClaim:
            return True

    async def _insist(self, step: Callable[[], Awaitable[T]]) -> T:
        return await until_done(step, (StoreError, Busy, Overloaded, Stopping), "push_is_told_later", **self._names)

    async def _write(self, step: Callable[[], Awaitable[object]]) -> None:
        """Writes a state that only operators look at; a failure does not matter, since the next post writes it
        again."""
        try:
            await step()
        except StoreError as error:
            tell_failure("push_not_told", error, **self._names)


def _own_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """A message's own headers whose names HTTP can carry, as `tarry-header-NAME`; as many as most servers take."""
    own: dict[str, str] = {}
    left = _LONGEST_HEADERS
    for name, value in headers.items():
        if name and _TOKEN.issuperset(name):
            text = quote(value, safe=_PLAIN).strip()
            left -= len(name) + len(text)
            if left < 0:
                break
            own[f"tarry-header-{name}"] = text
    return own
