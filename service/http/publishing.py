"""POST /v1/topics/{topic}/messages: one message or a batch, now or later."""

import hashlib
from collections.abc import Sequence

import msgspec
import trio
from attrs import define, field, frozen
from msgspec import UNSET

from ...store.records import Conflict, Draft, Publication, Queue, Topic
from ...store.stream.placing import WrongQueue, named_queue
from . import answers, rendering
from .asgi import Response
from .call import Call, answer
from .names import wrong_content_type, wrong_headers, wrong_label
from .problems import Fault, Problem, bad_field
from .reading import check_json, decode, read_body
from .requests import Batch, Message, Shape, Single

BYTES = "application/octet-stream"
_read_single = msgspec.json.Decoder(Single).decode

_SLACK = 64 << 10
"""What a request may have beyond the batch's limit: the fields around a single body."""
_MOST_FAULTS = 20
_AT_ONCE = 256 << 10
_WEIGHT = 2 << 10
"""Others have their turn after so many bytes of bodies, a message counting as so many beside its own."""


async def publish(call: Call) -> Response:
    """Publish now or later, one message or a batch.

    All is checked, then written: all or none.
    """
    name = call.part("topic")
    data = await read_body(call.request, call.settings.max_batch_bytes + _SLACK)
    messages, key, single = _messages(call, data)
    drafts = await _checked(call, messages, single=single)
    topic = await call.node.directory.topic(name)
    publication = Publication(
        drafts=tuple(draft.placed(topic, _queue(call, topic, draft)) for draft in drafts),
        idempotency_key=key,
        fingerprint=b"" if key is None else _fingerprint(name, data),
    )
    receipts = await call.node.intake.publish(publication)
    if isinstance(receipts, Conflict):
        raise Problem("idempotency-conflict", "this topic has seen the idempotency key with another request")
    answered = [rendering.receipt(topic, receipt) for receipt in receipts]
    return answer(answered[0] if single else answers.BatchAnswer(messages=answered), 201)


def _fingerprint(topic: str, data: bytes) -> bytes:
    made = hashlib.sha256(topic.encode() + b"\n")
    made.update(data)
    return made.digest()


def _messages(call: Call, data: bytes) -> tuple[Sequence[Message], str | None, bool]:
    """The messages, the idempotency key of the request, and whether it is a single message."""
    if (message := _single(data)) is not None:
        return [message], _idempotency_key(call, message.idempotency_key), True
    batch = decode(data, Batch)
    if len(batch.messages) > call.settings.max_batch:
        raise Problem(
            "too-large",
            f"a batch has {call.settings.max_batch} messages at most, not {len(batch.messages)}",
            faults=[Fault("too many messages", pointer="/messages")],
            executed=False,
        )
    for index, message in enumerate(batch.messages):
        if message.idempotency_key is not None:
            raise bad_field(
                f"/messages/{index}/idempotency_key",
                "a batch is accepted all or none: put idempotency_key beside messages",
            )
    return batch.messages, _idempotency_key(call, batch.idempotency_key), False


def _single(data: bytes) -> Message | None:
    """None for a batch."""
    try:
        message = _read_single(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None if _is_batch(data) else decode(data, Message)  # which says what is wrong
    return message if message.messages is UNSET else None


def _is_batch(data: bytes) -> bool:
    try:
        return msgspec.json.decode(data, type=Shape).messages is not UNSET
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False  # decoding it as a message says what is wrong


def _idempotency_key(call: Call, named: str | None) -> str | None:
    """From the header or the field, which may both be there when they agree."""
    limit = call.settings.max_key
    if named is not None and (wrong := wrong_label(named, limit)):
        raise bad_field("/idempotency_key", wrong)
    headers = call.request.headers(b"idempotency-key")
    if not headers:
        return named
    try:
        header = headers[0].decode()
    except UnicodeDecodeError:
        raise Problem("bad-request", "the header Idempotency-Key is not UTF-8") from None
    if wrong := wrong_label(header, limit):
        raise Problem("bad-request", f"the header Idempotency-Key: {wrong}")
    if len(headers) > 1 or named not in (None, header):
        raise Problem("bad-request", "there are two idempotency keys, and they are not the same")
    return header


@frozen
class _Checked:
    """A message that is in order, but for its queue, which only the topic knows."""

    message: Message
    pointer: str
    body: bytes
    content_type: str | None
    deliver_at: int | None

    def placed(self, topic: Topic, queue: Queue) -> Draft:
        message = self.message
        return Draft(
            topic=topic,
            queue=queue,
            body=self.body,
            content_type=self.content_type,
            deliver_at=self.deliver_at,
            key=message.key,
            ordering_key=message.ordering_key,
            tag=message.tag,
            headers=None if message.headers is None else msgspec.json.encode(message.headers),
        )


@define
class _Faults:
    """What is wrong with the messages of a request, up to a number worth reading."""

    found: list[Fault] = field(factory=list[Fault])
    too_large: int = 0

    def add(self, pointer: str, wrong: str | None) -> None:
        if wrong is not None:
            self.found.append(Fault(wrong, pointer=pointer))

    @property
    def enough(self) -> bool:
        return len(self.found) >= _MOST_FAULTS

    def raise_any(self) -> None:
        if not self.found:
            return
        first, more = self.found[0], len(self.found) - 1
        detail = f"{first.pointer}: {first.detail}" + (f" (and {more} more)" if more else "")
        kind = "too-large" if self.too_large == len(self.found) else "bad-request"
        raise Problem(kind, detail, faults=self.found, executed=False if kind == "too-large" else None)


async def _checked(call: Call, messages: Sequence[Message], *, single: bool) -> list[_Checked]:
    faults = _Faults()
    checked: list[_Checked] = []
    since_pause = 0
    for index, message in enumerate(messages):
        pointer = "" if single else f"/messages/{index}"
        before = len(faults.found)
        body = _body(call, message, pointer, faults)
        _check_labels(call, message, pointer, faults)
        deliver_at = None
        try:
            deliver_at = call.deliver_at(message.delay, message.deliver_at, pointer)
        except Problem as problem:
            faults.found += problem.body.errors or []
        if len(faults.found) == before:
            content_type = None if message.body is not UNSET else message.content_type or BYTES
            checked.append(_Checked(message, pointer, body, content_type, deliver_at))
        elif faults.enough:
            break
        since_pause += len(body) + _WEIGHT
        if since_pause > _AT_ONCE:
            since_pause = 0
            await trio.lowlevel.checkpoint()
    faults.raise_any()
    return checked


def _body(call: Call, message: Message, pointer: str, faults: _Faults) -> bytes:
    limit = call.settings.max_body
    if (message.body is UNSET) == (message.body_base64 is None):
        given = "one of them" if message.body is UNSET else "not both"
        faults.add(f"{pointer}/body", f"a message has body or body_base64, {given}")
        return b""
    if isinstance(message.body, msgspec.Raw):
        where, body = f"{pointer}/body", bytes(message.body)
        if message.content_type is not None:
            faults.add(f"{pointer}/content_type", "it goes with body_base64; body is JSON")
    else:
        where, body = f"{pointer}/body_base64", message.body_base64 or b""
        if message.content_type is not None:
            faults.add(f"{pointer}/content_type", wrong_content_type(message.content_type))
    if len(body) > limit:
        faults.too_large += 1
        faults.add(where, f"it has {len(body)} bytes, and may have {limit}")
    elif isinstance(message.body, msgspec.Raw) and (fault := check_json(body, where)):
        faults.found.append(fault)
    return body


def _check_labels(call: Call, message: Message, pointer: str, faults: _Faults) -> None:
    for name in ("key", "ordering_key", "tag"):
        label: str | None = getattr(message, name)
        if label is not None:
            faults.add(f"{pointer}/{name}", wrong_label(label, call.settings.max_key))
    if message.headers is not None:
        faults.add(f"{pointer}/headers", wrong_headers(message.headers))


def _queue(call: Call, topic: Topic, draft: _Checked) -> Queue:
    number = draft.message.queue
    if number is None:
        return call.node.intake.choose_queue(topic, draft.message.ordering_key)
    try:
        return named_queue(topic, number, draft.message.ordering_key)
    except WrongQueue as error:
        raise bad_field(f"{draft.pointer}/queue", str(error)) from None
