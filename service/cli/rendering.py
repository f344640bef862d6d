"""Renders messages and receipts as JSON objects, and as the cells of a table."""

import base64
import json
from datetime import datetime
from typing import Any

import attrs

from ...client import Message, Receipt
from ...store.content import LABELS
from ...store.printable import json_text


def message_record(message: Message) -> dict[str, Any]:
    """A message as the server's API gives it."""
    record: dict[str, Any] = {
        "id": message.id,
        "topic": message.topic,
        "queue": message.queue,
        "offset": message.offset,
        **{name: getattr(message, name) for name in LABELS},
        "headers": dict(message.headers) or None,
        "attempt": message.attempt,
        "published_at": time_text(message.published_at),
        "deliver_at": time_text(message.deliver_at),
    }
    if message.expires_at is not None:
        record["expires_at"] = time_text(message.expires_at)
    if message.erased_at is not None:
        return record | {"erased_at": time_text(message.erased_at)}
    if isinstance(message.body, bytes):
        encoded = base64.b64encode(message.body).decode("ascii")
        return record | {"body_base64": encoded, "content_type": message.content_type}
    return record | {"body": message.body}


def receipt_record(receipt: Receipt) -> dict[str, Any]:
    return attrs.asdict(receipt) | {"deliver_at": time_text(receipt.deliver_at)}


def raw_body(message: Message) -> bytes:
    """The body as a program reads it: JSON text, or the bytes; empty if the message was erased."""
    if message.erased:
        return b""
    return message.body if isinstance(message.body, bytes) else json.dumps(message.body, ensure_ascii=False).encode()


def body_text(message: Message) -> str:
    if message.erased_at is not None:
        return f"erased at {time_text(message.erased_at)}"
    if isinstance(message.body, bytes):
        return f"{len(message.body)} bytes of {message.content_type}"
    return json_text(message.body)


def time_text(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
