"""Checks the messages of a request: the common part of a publish, a batch and NDJSON lines."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec
import trio
from attrs import define, field
from msgspec import UNSET

from ...store.content import BYTES, LABELS, all_fit, builder
from ...store.records import Draft, Topic
from ...store.stream import idempotency
from ...store.stream.placing import WrongQueue, named_queue
from ..durations import format_time
from ..engine.publish.intake import Intake
from ..engine.publish.shaping import Shaping, Window
from ..errors import UnknownTopic
from ..settings import Settings
from ..trace_context import carrying
from .call import Call
from .names import wrong_content_type, wrong_headers, wrong_label
from .problems import Fault, Problem, bad_field
from .reading import wrong_json
from .requests import Message, Sent

SLACK = 64 << 10
"""Bytes that a request may have beyond the limit of its body, for the fields around a single one."""
_MOST_FAULTS = 20
_AT_ONCE = 256 << 10
_labels_fit = all_fit(*LABELS)
_GIVEN = ("headers", "content_type", "expires_at", "topic", "queue", "body", "deliver_at", "guard")
_draft = builder(Draft, LABELS, _GIVEN)
_WEIGHT = 2 << 10
"""A message counts as this many bytes beside its body; other tasks have their turn after `_AT_ONCE` bytes."""


def longest(settings: Settings) -> int:
    """The most bytes of a message with all its fields: alone, as a line, or in a large batch. In base64 a body is a
    third longer."""
    return settings.max_body + settings.max_body // 2 + SLACK


class Checked(msgspec.Struct, frozen=True):
    """A message that has been checked, except for its queue, which can be checked only with the topic."""

    message: Sent
    pointer: str
    body: bytes
    content_type: str | None
    deliver_at: int | None
    window: Window | None = None
    expires_at: int | None = None
    trace: Mapping[str, str] = {}
    """The trace context of its request."""

    def placed(self, intake: Intake, topic: Topic, shaping: Shaping | None = None) -> Draft:
        """The draft of the message, with its queue and its time. Raises a `Problem` if the topic has no such queue."""
        message = self.message
        if message.queue is None:
            queue = intake.choose_queue(topic, message.ordering_key)
        else:
            try:
                queue = named_queue(topic, message.queue, message.ordering_key)
            except WrongQueue as error:
                raise bad_field(f"{self.pointer}/queue", str(error)) from None
        headers, deliver_at = message.headers, self.deliver_at
        if self.window is not None and shaping is not None:
            deliver_at = shaping.place(self.window, message.key or message.idempotency_key)
        return _draft(
            message,
            None if headers is None and not self.trace else carrying(headers, self.trace),
            self.content_type,
            self.expires_at,
            topic,
            queue,
            self.body,
            deliver_at,
            message.guard,
        )


def windows(found: Iterable[Checked]) -> list[Window]:
    return [one.window for one in found if one.window is not None]


@define
class Faults:
    """The faults of the messages of a request, up to a number worth reading."""

    found: list[Fault] = field(factory=list[Fault])
    too_large: int = 0
    again: bool = False
    """The request was accepted before: times that were ahead then may be past now, and are not checked."""

    def add(self, pointer: str, wrong: str | None) -> None:
        if wrong is not None:
            self.found.append(Fault(wrong, pointer=pointer))

    @property
    def enough(self) -> bool:
        """Whether there are so many that more would not be read."""
        return len(self.found) >= _MOST_FAULTS

    def problem(self) -> Problem:
        """The problem that reports the faults; there must be one at least."""
        first, more = self.found[0], len(self.found) - 1
        detail = f"{first.pointer}: {first.detail}" + (f" (and {more} more)" if more else "")
        kind = "too-large" if self.too_large == len(self.found) else "bad-request"
        return Problem(kind, detail, faults=self.found, executed=False if kind == "too-large" else None)


async def checked(call: Call, messages: Sequence[Message], *, again: bool = False) -> list[Checked]:
    """Checks the messages of a batch. Raises a `Problem` with the faults."""
    faults = Faults(again=again)
    found: list[Checked] = []
    since_pause = 0
    for index, message in enumerate(messages):
        one = check(call, message, f"/messages/{index}", faults)
        if one is not None:
            found.append(one)
        elif faults.enough:
            break
        since_pause += _WEIGHT + len(message.body_base64 or b"" if message.body is UNSET else message.body)
        if since_pause > _AT_ONCE:
            since_pause = 0
            await trio.lowlevel.checkpoint()
    if faults.found:
        raise faults.problem()
    return found


def check_single(call: Call, message: Sent, *, again: bool = False) -> Checked:
    """Checks a message that stands alone. Raises a `Problem` with the faults."""
    faults = Faults(again=again)
    one = check(call, message, "", faults)
    if one is None:
        raise faults.problem()
    return one


def check(call: Call, message: Sent, pointer: str, faults: Faults) -> Checked | None:
    """Checks a message; if something is wrong, adds it to `faults` and returns None."""
    before = len(faults.found)
    body = _body(call, message, pointer, faults)
    if not _labels_fit(message, wrong_label, call.settings.max_key):
        _check_labels(call, message, pointer, faults)
    if message.headers is not None:
        faults.add(f"{pointer}/headers", wrong_headers(message.headers))
    if message.guard is not None:
        _check_guard(call, message, message.guard, pointer, faults)
    deliver_at = None
    if message.delay is not None or message.deliver_at is not None:
        try:
            deliver_at = call.deliver_at(message.delay, message.deliver_at, pointer)
        except Problem as problem:
            faults.found += problem.body.errors or []
    window = None
    if isinstance(message, Message) and message.deliver_between is not None:
        window = _window(call, message, message.deliver_between, pointer, faults)
    expires_at = None
    if message.expires_at is not None:
        latest = deliver_at if window is None else window[1]
        expires_at = _expires_at(call, message.expires_at, latest, pointer, faults)
    if len(faults.found) != before:
        return None
    content_type = None if message.body is not UNSET else message.content_type or BYTES
    return Checked(message, pointer, body, content_type, deliver_at, window, expires_at, call.trace)


def _window(call: Call, message: Message, between: Sequence[str], pointer: str, faults: Faults) -> Window | None:
    if message.delay is not None or message.deliver_at is not None:
        other = "delay" if message.delay is not None else "deliver_at"
        faults.add(f"{pointer}/deliver_between", f"there is a {other} too: leave one of them out")
        return None
    try:
        return call.between(between, pointer, again=faults.again)
    except Problem as problem:
        faults.found += problem.body.errors or []
        return None


def _expires_at(call: Call, text: str, deliver_at: int | None, pointer: str, faults: Faults) -> int:
    pointer, at = f"{pointer}/expires_at", 0
    try:
        at = call.time(text, pointer)
    except Problem as problem:
        faults.found += problem.body.errors or []
    else:
        now = call.node.clock.now()
        if faults.again:
            return at
        if at <= now:
            faults.add(pointer, f"it is past: the server's time is {format_time(now)}")
        elif deliver_at is not None and at <= deliver_at:
            faults.add(pointer, f"it is not after the time it is to be delivered, {format_time(deliver_at)}")
    return at


def _body(call: Call, message: Sent, pointer: str, faults: Faults) -> bytes:
    raw, content_type = message.body, message.content_type
    if (raw is UNSET) == (message.body_base64 is None):
        given = "one of them" if raw is UNSET else "not both"
        faults.add(f"{pointer}/body", f"a message has body or body_base64, {given}")
        return b""
    if isinstance(raw, msgspec.Raw):
        where, body = "body", bytes(raw)
        if content_type is not None:
            faults.add(f"{pointer}/content_type", "it goes with body_base64; body is JSON")
    else:
        where, body = "body_base64", message.body_base64 or b""
        if content_type is not None:
            faults.add(f"{pointer}/content_type", wrong_content_type(content_type))
    if len(body) > (limit := call.settings.max_body):
        faults.too_large += 1
        faults.add(f"{pointer}/{where}", f"it has {len(body)} bytes, and may have {limit}")
    elif raw is not UNSET and (wrong := wrong_json(body)):
        inside, detail = wrong
        faults.add(f"{pointer}/{where}{inside}", detail)
    return body


def _check_labels(call: Call, message: Sent, pointer: str, faults: Faults) -> None:
    for name in LABELS:
        if (label := getattr(message, name)) is not None:
            faults.add(f"{pointer}/{name}", wrong_label(label, call.settings.max_key))


def _check_guard(call: Call, message: Sent, guard: str, pointer: str, faults: Faults) -> None:
    faults.add(f"{pointer}/guard", call.node.guards.wrong(guard))
    if isinstance(message, Message) and message.key is None:
        faults.add(f"{pointer}/key", "a message with a guard has a key: it is what the guard looks up")
    between = message.deliver_between if isinstance(message, Message) else None
    if message.delay is None and message.deliver_at is None and between is None:
        faults.add(f"{pointer}/delay", "say delay or deliver_at: a guard is asked when a message has waited")


def guards_of(messages: Iterable[Checked]) -> set[str]:
    return {one.message.guard for one in messages if one.message.guard is not None}


def fingerprint(topic: str, data: bytes) -> bytes:
    """The hash of a request as sent: the same idempotency key with another fingerprint is a conflict.

    The trace in the HTTP headers is no part of it, so that a request may be repeated from another span.
    """
    return hashlib.sha256(topic.encode() + b"\n" + data).digest()


async def answered_before(call: Call, name: str, asked: Set[idempotency.Request]) -> set[idempotency.Request]:
    """Those of these requests that the topic has accepted before.

    Such a request gets the same answer as then, even if its times are past by now. Only requests that seem wrong are
    looked up, so that all others cost nothing.
    """
    try:
        topic = await call.node.directory.topic(name, create=False)
    except UnknownTopic:
        return set()
    return await call.node.store.read(idempotency.seen, topic.id, asked, call.node.clock.now())
