"""A message of a request, checked: what a publish, a batch and a line of many have in common."""

import hashlib
from collections.abc import Sequence

import msgspec
import trio
from attrs import define, field
from msgspec import UNSET

from ...store.records import Draft, Topic
from ...store.stream.placing import WrongQueue, named_queue
from ..stream.intake import Intake
from .call import Call
from .names import wrong_content_type, wrong_headers, wrong_label
from .problems import Fault, Problem, bad_field
from .reading import wrong_json
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

    def placed(self, intake: Intake, topic: Topic) -> Draft:
        """In its queue. Raises a `Problem` when the topic has no such queue."""
        message = self.message
        if message.queue is None:
            queue = intake.choose_queue(topic, message.ordering_key)
        else:
            try:
                queue = named_queue(topic, message.queue, message.ordering_key)
            except WrongQueue as error:
                raise bad_field(f"{self.pointer}/queue", str(error)) from None
        return Draft(
            topic,
            queue,
            self.body,
            self.content_type,
            self.deliver_at,
            message.key,
            message.ordering_key,
            message.tag,
            None if message.headers is None else msgspec.json.encode(message.headers),
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
        faults.add(f"{pointer}/{where}", wrong)
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


def fingerprint(topic: str, data: bytes) -> bytes:
    """Of a request as sent: the same key with another one is a conflict."""
    return hashlib.sha256(topic.encode() + b"\n" + data).digest()
