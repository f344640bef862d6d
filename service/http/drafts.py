"""A message of a request, checked: what a publish, a batch and a line of many have in common."""

import hashlib
from collections.abc import Sequence

import msgspec
import trio
from attrs import define, field
from msgspec import UNSET

from ...store.records import Draft, Queue, Topic
from ...store.stream.placing import WrongQueue, named_queue
from .call import Call
from .names import wrong_content_type, wrong_headers, wrong_label
from .problems import Fault, Problem, bad_field
from .reading import check_json
from .requests import Message

BYTES = "application/octet-stream"

SLACK = 64 << 10
"""What a request may have beyond the limit of its bodies: the fields around a single one."""
_MOST_FAULTS = 20
_AT_ONCE = 256 << 10
_WEIGHT = 2 << 10
"""Others have their turn after so many bytes of bodies, a message counting as so many beside its own."""


class Checked(msgspec.Struct, frozen=True):
    """A message that is in order, but for its queue, which only the topic knows."""

    message: Message
    pointer: str
    body: bytes
    content_type: str | None
    deliver_at: int | None

    def placed(self, call: Call, topic: Topic) -> Draft:
        """In its queue. Raises a `Problem` when the topic has no such queue."""
        message = self.message
        return Draft(
            topic=topic,
            queue=_queue(call, topic, self),
            body=self.body,
            content_type=self.content_type,
            deliver_at=self.deliver_at,
            key=message.key,
            ordering_key=message.ordering_key,
            tag=message.tag,
            headers=None if message.headers is None else msgspec.json.encode(message.headers),
        )


@define
class Faults:
    """What is wrong with the messages of a request, up to a number worth reading."""

    found: list[Fault] = field(factory=list[Fault])
    too_large: int = 0

    def add(self, pointer: str, wrong: str | None) -> None:
        """Unless nothing is wrong there."""
        if wrong is not None:
            self.found.append(Fault(wrong, pointer=pointer))

    @property
    def enough(self) -> bool:
        """More would not be read."""
        return len(self.found) >= _MOST_FAULTS

    def problem(self) -> Problem:
        """There are some."""
        first, more = self.found[0], len(self.found) - 1
        detail = f"{first.pointer}: {first.detail}" + (f" (and {more} more)" if more else "")
        kind = "too-large" if self.too_large == len(self.found) else "bad-request"
        return Problem(kind, detail, faults=self.found, executed=False if kind == "too-large" else None)


async def checked(call: Call, messages: Sequence[Message]) -> list[Checked]:
    """The messages of a batch. Raises a `Problem` with what is wrong."""
    faults = Faults()
    found: list[Checked] = []
    since_pause = 0
    for index, message in enumerate(messages):
        one = check(call, message, f"/messages/{index}", faults)
        if one is not None:
            found.append(one)
        elif faults.enough:
            break
        since_pause += (0 if one is None else len(one.body)) + _WEIGHT
        if since_pause > _AT_ONCE:
            since_pause = 0
            await trio.lowlevel.checkpoint()
    if faults.found:
        raise faults.problem()
    return found


def check_single(call: Call, message: Message) -> Checked:
    """A message that stands alone. Raises a `Problem` with what is wrong."""
    faults = Faults()
    one = check(call, message, "", faults)
    if one is None:
        raise faults.problem()
    return one


def check(call: Call, message: Message, pointer: str, faults: Faults) -> Checked | None:
    """None when there is something wrong, which is among `faults` then."""
    before = len(faults.found)
    body = _body(call, message, pointer, faults)
    _check_labels(call, message, pointer, faults)
    deliver_at = None
    if message.delay is not None or message.deliver_at is not None:
        try:
            deliver_at = call.deliver_at(message.delay, message.deliver_at, pointer)
        except Problem as problem:
            faults.found += problem.body.errors or []
    if len(faults.found) != before:
        return None
    content_type = None if message.body is not UNSET else message.content_type or BYTES
    return Checked(message, pointer, body, content_type, deliver_at)


def _body(call: Call, message: Message, pointer: str, faults: Faults) -> bytes:
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


def _check_labels(call: Call, message: Message, pointer: str, faults: Faults) -> None:
    limit = call.settings.max_key
    if message.key is not None:
        faults.add(f"{pointer}/key", wrong_label(message.key, limit))
    if message.ordering_key is not None:
        faults.add(f"{pointer}/ordering_key", wrong_label(message.ordering_key, limit))
    if message.tag is not None:
        faults.add(f"{pointer}/tag", wrong_label(message.tag, limit))
    if message.headers is not None:
        faults.add(f"{pointer}/headers", wrong_headers(message.headers))


def _queue(call: Call, topic: Topic, draft: Checked) -> Queue:
    number = draft.message.queue
    if number is None:
        return call.node.intake.choose_queue(topic, draft.message.ordering_key)
    try:
        return named_queue(topic, number, draft.message.ordering_key)
    except WrongQueue as error:
        raise bad_field(f"{draft.pointer}/queue", str(error)) from None


def fingerprint(topic: str, data: bytes) -> bytes:
    """Of a request as sent: the same key with another one is a conflict."""
    made = hashlib.sha256(topic.encode() + b"\n")
    made.update(data)
    return made.digest()
