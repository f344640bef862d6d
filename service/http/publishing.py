"""POST /v1/topics/{topic}/messages: one message or a batch, now or later."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from ...store.records import Conflict, Publication
from . import answers, ndjson, rendering
from .asgi import Response
from .call import Call, answer
from .drafts import SLACK, answered_before, check_single, checked, fingerprint, guards_of, longest, windows
from .names import wrong_label
from .problems import Fault, Problem, bad_field, idempotency_conflict
from .reading import decode, decode_each, has_more, is_large, media_type, read_body, too_long
from .requests import Batch, BatchApart, Lengths, Message, Shape, Single
from .surrogates import ALONE, pointer_to_lone

_read_single = msgspec.json.Decoder(Single).decode


async def publish(call: Call) -> Response:
    """Publish now or later, one message or a batch.

    Every message is checked before any is written: all or none. Many messages with an answer each come as lines: see
    `ndjson`.
    """
    if media_type(call.request) == ndjson.MEDIA_TYPE:
        return ndjson.publish_lines(call)
    name = call.part("topic")
    data = await read_body(call.request, call.settings.max_batch_bytes + SLACK)
    messages, key, single = await _messages(call, data)
    mark = b"" if key is None else fingerprint(name, data)
    try:
        found = [check_single(call, messages[0])] if single else await checked(call, messages)
    except Problem:
        if key is None or not await answered_before(call, name, {(key, mark)}):
            raise
        found = await checked(call, messages, again=True)
    await call.node.guards.admit(guards_of(found))
    topic = await call.node.directory.topic(name)
    node = call.node
    if asked := windows(found):
        await node.shaping.learn(asked)
    publication = Publication(
        drafts=tuple([one.placed(node.intake, topic, node.shaping) for one in found]),
        idempotency_key=key,
        fingerprint=mark,
    )
    receipts = await call.node.intake.publish(publication)
    if isinstance(receipts, Conflict):
        raise idempotency_conflict()
    answered = [rendering.receipt(topic, receipt, node.shaping) for receipt in receipts]
    return answer(answered[0] if single else answers.BatchAnswer(messages=answered), 201)


async def _messages(call: Call, data: bytes) -> tuple[Sequence[Message], str | None, bool]:
    """The messages, the idempotency key of the request, and whether it is a single message."""
    if (message := _single(call, data)) is not None:
        return [message], idempotency_key(call, message.idempotency_key), True
    messages, key = await _batch(call, data)
    for index, message in enumerate(messages):
        if message.idempotency_key is not None:
            raise bad_field(
                f"/messages/{index}/idempotency_key",
                "a batch is accepted all or none: put idempotency_key beside messages",
            )
    return messages, idempotency_key(call, key), False


async def _batch(call: Call, data: bytes) -> tuple[Sequence[Message], str | None]:
    most = call.settings.max_batch
    if not is_large(data):
        try:
            batch = decode(data, Batch)
        except Problem:
            if len(data) <= longest(call.settings):
                raise
            # Read one by one below, so that a fault is reported wherever it is.
        else:
            if len(batch.messages) > most:
                raise _too_many(most, f", not {len(batch.messages)}")
            return batch.messages, batch.idempotency_key
    if has_more(data, "messages", most):
        raise _too_many(most)
    apart = decode(data, BatchApart)
    limit = longest(call.settings)
    return [one async for one in decode_each(apart.messages, Message, "messages", limit)], apart.idempotency_key


def _too_many(most: int, there_are: str = "") -> Problem:
    return Problem(
        "too-large",
        f"a batch has {most} messages at most{there_are}",
        faults=[Fault("too many messages", pointer="/messages")],
        executed=False,
    )


def _single(call: Call, data: bytes) -> Message | None:
    """The message of a request; None if it is a batch."""
    if len(data) > longest(call.settings):
        if _is_batch(data):
            return None
        raise _too_large(call, data)
    try:
        message = _read_single(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None if _is_batch(data) else decode(data, Message)  # which says what is wrong
    return message if message.messages is UNSET else None


def _is_batch(data: bytes) -> bool:
    try:
        return msgspec.json.decode(data, type=Shape).messages is not UNSET
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if (pointer := pointer_to_lone(data)) is not None:
            raise bad_field(pointer, ALONE) from None
        return False  # decoding it as a message says what is wrong


def _too_large(call: Call, data: bytes) -> Problem:
    """The problem of a message that is too large: its body, or the fields around it."""
    shape, limit = decode(data, Lengths), call.settings.max_body
    if len(shape.body) > limit:
        return too_long("/body", len(shape.body), limit)
    size = len(shape.body_base64) // 4 * 3
    if size > limit:
        return too_long("/body_base64", size, limit)
    detail = f"a message may have {longest(call.settings)} bytes with all that it says, not {len(data)}"
    return Problem("too-large", detail, executed=False)


def idempotency_key(call: Call, named: str | None) -> str | None:
    """The idempotency key from the header or the field; both may be given if they agree."""
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
