"""Claiming messages, settling claims, and pulling by offset."""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from msgspec import UNSET

from ...store import records
from ...store.groups.claim_ids import format_claim
from ...store.ids import MAX_MS
from ...store.records import ClaimRequest, Group, Queue, ReadAnswer, ReadRequest, Settled, Topic
from ...store.stream.placing import queues_there
from ..durations import format_time
from . import answers, rendering
from .asgi import Response
from .call import Call, answer, of_query
from .names import parse_ids, wrong_client, wrong_label
from .problems import Problem, bad_field
from .requests import Ack, Claim, Extend, Fail

Settling = Callable[[], Awaitable[Settled]]

MAX_REASON = 1 << 10
_NEXT = re.compile(r"(\d{1,5})-(\d{1,19})", re.ASCII)


async def claim(call: Call) -> Response:
    """Claim messages for a lease.

    Waits for the first when asked to.
    """
    request = await call.read(Claim)
    settings = call.settings
    if wrong := wrong_client(request.client):
        raise bad_field("/client", wrong)
    size = 10 if request.max is None else request.max
    if size > settings.max_claim:
        raise bad_field("/max", f"a claim has {settings.max_claim} messages at most")
    wait = call.wait(request.wait, "/wait")
    lease = settings.lease if request.lease is None else _lease(call, request.lease)
    latest, since = call.start(request.from_, "/from")
    tags = _tags(call, request.tags)
    await call.own_client(request.client)
    topic = await call.node.directory.topic(call.part("topic"))
    await call.node.pauses.asked()
    if request.after and topic.kind != "broadcast":
        raise bad_field("/after", f"topic {topic.name!r} is no broadcast topic: ack the claim, and leave it out")
    group = await call.node.directory.group(topic, call.part("group"), latest=latest, since=since)
    if topic.kind == "broadcast":
        return await _read_on(call, group, request, size, wait, tags, since)
    wish = ClaimRequest(request.client, size, lease, tags, request.tells_begun is True)

    async def claim() -> records.Claim | None:
        async with call.node.liveness.polling(wish.client):
            return await call.node.groups.claim(group, wish, wait)

    granted = await call.unless_gone(claim)
    if granted is None:
        return answer(answers.ClaimAnswer(claim=None, messages=[]))
    return answer(
        answers.ClaimAnswer(
            claim=format_claim(*(one.key for one in granted.ranges)),
            lease_until=format_time(granted.lease_until),
            ordered=True if topic.ordered else UNSET,
            messages=[rendering.message(topic, message) for one in granted.ranges for message in one.messages],
        )
    )


def _lease(call: Call, lease: int | str) -> int:
    return call.duration(lease, "/lease", low=1, high=call.settings.max_lease)


def _tags(call: Call, tags: list[str] | None) -> frozenset[str] | None:
    if tags is None:
        return None
    for index, tag in enumerate(tags):
        if wrong := wrong_label(tag, call.settings.max_key):
            raise bad_field(f"/tags/{index}", wrong)
    return frozenset(tags)


async def _read_on(
    call: Call, group: Group, request: Claim, size: int, wait: int, tags: frozenset[str] | None, since: int | None
) -> Response:
    """Reads messages of a broadcast topic from the client's own offset on."""
    topic = group.topic
    wish = ReadRequest(
        group,
        request.client,
        size,
        _after(topic, request.after),
        moves=request.after is None,
        latest=request.from_ != "earliest",
        tags=tags,
        since=since,
    )

    async def read_on() -> ReadAnswer:
        async with call.node.liveness.polling(wish.client):
            return await call.node.readers.read_on(wish, wait)

    read = await call.unless_gone(read_on)
    if read.beyond:
        raise bad_field("/after", "it lies behind the end of its queue")
    queue, offset = read.next
    return answer(
        answers.ClaimAnswer(
            claim=None,
            next=f"{queue}-{offset}",
            messages=[rendering.message(topic, message) for message in read.messages],
        )
    )


def _after(topic: Topic, after: str | None) -> tuple[Queue, int] | None:
    if not after:
        return None
    match = _NEXT.fullmatch(after)
    queue = None if match is None else next((q for q in topic.queues if q.number == int(match[1])), None)
    if match is None or queue is None or int(match[2]) >= 1 << 63:
        raise bad_field("/after", "pass on `next` of an answer of this topic as it came, or an empty text")
    return queue, int(match[2])


async def ack(call: Call) -> Response:
    """Ack messages of a claim."""
    claim = await call.own_claim()
    request = await call.read(Ack)
    settled = unless_lost(await acking(call, claim, request.ids)())
    return answer(answers.AckAnswer(acked=settled.acked))


async def fail(call: Call) -> Response:
    """Fail messages of a claim: they go onto the ladder, or become dead letters."""
    claim = await call.own_claim()
    request = await call.read(Fail)
    settled = unless_lost(await failing(call, claim, request)())
    return answer(answers.FailAnswer(retried=settled.retried, dead=settled.dead))


def acking(call: Call, claim: str, ids: Sequence[str] | None, pointer: str = "/ids") -> Settling:
    """Prepares an ack; `ids` None means all unsettled messages. Raises a `Problem` if an id is malformed."""
    return partial(call.node.groups.settle, claim, "ack", ids=parse_ids(ids, pointer))


def beginning(call: Call, claim: str, ids: Sequence[str], pointer: str = "/begun") -> Settling:
    """Prepares a note that some messages were begun. Raises a `Problem` if an id is malformed."""
    return partial(call.node.groups.settle, claim, "begin", begun=parse_ids(ids, pointer) or ())


def failing(call: Call, claim: str, request: Fail, pointer: str = "") -> Settling:
    """Prepares a fail. Raises a `Problem` if an id or `retry_after` is not valid."""
    rest = None
    if request.retry_after is not None:
        rest = call.duration(request.retry_after, f"{pointer}/retry_after", high=call.settings.max_delay)
        if call.node.clock.now() + rest > MAX_MS:
            raise bad_field(f"{pointer}/retry_after", "it ends after 2109")
    return partial(
        call.node.groups.settle,
        claim,
        "fail",
        ids=parse_ids(request.ids, f"{pointer}/ids"),
        reason=None if request.reason is None else cut_reason(request.reason),
        retry_after=rest,
        count=request.count is not False,
    )


def cut_reason(reason: str) -> str:
    """The reason as it is stored, cut to `MAX_REASON` bytes: a long stack trace must not make the fail itself fail."""
    text = reason.encode()
    return reason if len(text) <= MAX_REASON else text[: MAX_REASON - 3].decode(errors="ignore") + "…"


async def extend(call: Call) -> Response:
    """Extend the lease of a claim.

    The answer confirms that the client still holds the claim, and that the messages it began are noted.
    """
    claim = await call.own_claim()
    request = await call.read(Extend)
    lease, begun = _lease(call, request.lease), parse_ids(request.begun, "/begun") or ()
    settled = unless_lost(await call.node.groups.settle(claim, "extend", lease=lease, begun=begun))
    return answer(answers.ExtendAnswer(lease_until=format_time(settled.lease_until)))


def unless_lost(settled: Settled) -> Settled:
    """The result of a settlement. Raises a `Problem` if nothing was done because the lease was lost."""
    if settled.lost:
        detail = "the lease is over, or the claim does not hold all of these messages; nothing was done"
        raise Problem("lease-lost", detail, result="lease_lost")
    return settled


async def pull(call: Call) -> Response:
    """Pull messages from an offset; no claim, no ack."""
    query = call.query
    offset = call.number(query.get("offset"), "offset", default=0, low=0, high=(1 << 63) - 1)
    size = call.number(query.get("max"), "max", default=10, low=1, high=call.settings.max_claim)
    with of_query("wait"):
        wait = call.wait(query.get("wait"), "/wait")
    topic = await call.topic()
    name = call.part("queue")
    queue = next((queue for queue in topic.queues if str(queue.number) == name), None)
    if queue is None:
        raise Problem("unknown-queue", f"topic {topic.name!r} has {queues_there(len(topic.queues))}")
    pulled = await call.unless_gone(partial(call.node.readers.pull, queue, offset, size, wait))
    return answer(
        answers.PullAnswer(
            messages=[rendering.message(topic, message) for message in pulled.messages], next_offset=pulled.next
        )
    )
