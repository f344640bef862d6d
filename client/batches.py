"""Cuts a stream of drafts into requests: at most so many messages and so many bytes each."""

from collections.abc import Iterable, Iterator
from typing import Any

from attrs import frozen

from .bodies import Dumps, encode, written
from .calls import Reply
from .records import Draft, Receipt

MAX_MESSAGES = 1000
MAX_BYTES = 4 * 1024 * 1024


@frozen
class Batch:
    """The drafts of one request; `wires` are the same as JSON."""

    drafts: tuple[Draft, ...]
    wires: tuple[bytes, ...]

    def request(self, idempotency_key: str) -> bytes:
        """The request's body: one transaction, one idempotency key."""
        return b'{"messages":[%b],"idempotency_key":%b}' % (b",".join(self.wires), encode(idempotency_key))


def receipt(reply: Reply) -> Receipt:
    """The receipt of a message."""
    return Receipt.read(reply.document)


def receipts(reply: Reply) -> list[Receipt]:
    """The receipts of a batch, in its order."""
    return [Receipt.read(record) for record in reply.document["messages"]]


def cut(
    messages: Iterable[Draft | dict[str, Any]], max_messages: int, max_bytes: int, json: Dumps | None = None
) -> Iterator[Batch]:
    """The messages in order, in batches. One that is itself over the limit goes alone, for the server to refuse."""
    drafts: list[Draft] = []
    wires: list[bytes] = []
    size = 0
    for message in messages:
        draft = message if isinstance(message, Draft) else Draft(**message)
        wire = written(draft, json)
        if drafts and (len(drafts) >= max_messages or size + len(wire) > max_bytes):
            yield Batch(tuple(drafts), tuple(wires))
            drafts, wires, size = [], [], 0
        drafts.append(draft)
        wires.append(wire)
        size += len(wire) + 1
    if drafts:
        yield Batch(tuple(drafts), tuple(wires))
