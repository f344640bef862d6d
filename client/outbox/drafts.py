"""Turns drafts into entries of the store, with the checks that the service makes of requests, which an outbox skips."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import frozen

from ...store.content import LABELS
from ...store.records import MAX_HEADERS
from ...store.stream.outbox import Entry
from ..bodies import Dumps, body_text, encode
from ..durations import instant_in, instant_out, milliseconds
from ..errors import BadRequest, TooLarge
from ..records import Draft

MAX_BATCH = 1000
_NAME = re.compile("[A-Za-z0-9._-]{1,249}")
_CONTENT_TYPE = re.compile("[\\x21-\\x7e][\\x20-\\x7e]{0,254}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class Limits:
    """The limits of the service's settings, for which the outbox cannot ask."""

    max_body: int = 256 << 10
    max_key: int = 255
    max_delay: int = 3650 * 86_400_000
    """Milliseconds."""


def check_topic(name: str) -> None:
    """Raises `BadRequest` for a text that cannot be the name of a topic."""
    if not _NAME.fullmatch(name):
        raise BadRequest("topic: a name is 1 to 249 letters, digits, dots, underscores and hyphens")
    if name in (".", ".."):
        raise BadRequest("topic: a name is more than one dot or two")


def entries(drafts: Iterable[Draft | dict[str, Any]], limits: Limits, json: Dumps | None = None) -> list[Entry]:
    """The drafts, or dicts of a draft's fields, checked. Raises `BadRequest` naming the field."""
    checked: list[Entry] = []
    for index, draft in enumerate(drafts):
        if index == MAX_BATCH:
            raise TooLarge(f"a batch has {MAX_BATCH} messages at most: publish the rest in another call")
        checked.append(_entry(Draft(**draft) if isinstance(draft, dict) else draft, limits, json))
    return checked


def _entry(draft: Draft, limits: Limits, json: Dumps | None) -> Entry:
    if draft.guard is not None:
        raise BadRequest("guard: an outbox cannot know whether a server declares it: publish such a message over HTTP")
    body, content_type = _body(draft, json)
    if len(body) > limits.max_body:
        raise TooLarge(f"body: it has {len(body)} bytes, and may have {limits.max_body}")
    labels: dict[str, Any] = {name: getattr(draft, name) for name in LABELS}
    for name, label in labels.items():  # users are not all typed
        if label is not None and not isinstance(label, str):
            raise BadRequest(f"{name}: it is text, and no {type(label).__name__}")
        if label is not None and not 0 < len(_utf8(name, label)) <= limits.max_key:
            raise BadRequest(f"{name}: it has {len(label.encode())} bytes, and may have 1 to {limits.max_key}")
    if draft.deliver_between is not None:
        raise BadRequest("deliver_between: only a server knows which second is empty; say delay or deliver_at")
    if draft.delay is not None and draft.deliver_at is not None:
        raise BadRequest("delay: there is a deliver_at too: leave one of them out")
    return Entry(
        **labels,
        body=body,
        content_type=content_type,
        delay=_delay(draft, limits),
        deliver_at=_instant(draft.deliver_at, "deliver_at"),
        expires_at=_instant(draft.expires_at, "expires_at"),
        headers=_headers(draft.headers),
        queue=draft.queue,
    )


def _body(draft: Draft, json: Dumps | None) -> tuple[bytes, str | None]:
    if isinstance(draft.body, bytes | bytearray):
        content_type = draft.content_type or "application/octet-stream"
        if not _CONTENT_TYPE.fullmatch(content_type):
            raise BadRequest("content_type: it is 1 to 255 printable ASCII characters, such as image/png")
        return bytes(draft.body), content_type
    if draft.content_type is not None:
        raise BadRequest("content_type: it goes with a body of bytes; any other body is JSON")
    try:
        return body_text(draft.body, json), None
    except (TypeError, ValueError, RecursionError) as error:
        text = str(error).removeprefix("body: ")
        raise BadRequest(f"body: it is no JSON value: {text}") from error


def _headers(headers: Mapping[str, str] | None) -> bytes | None:
    if headers is None:
        return None
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]  # users are not all typed
            raise BadRequest("headers: names and values are text, and no name is empty")
    try:
        text = encode(dict(headers), "headers")
    except ValueError as error:
        raise BadRequest(str(error)) from error
    if len(text) > MAX_HEADERS:
        raise BadRequest(f"headers: together they may have {MAX_HEADERS} bytes as JSON")
    return text


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(f"{name}: it holds half a surrogate pair, which UTF-8 cannot carry") from error


def _delay(draft: Draft, limits: Limits) -> int:
    if draft.delay is None:
        return 0
    try:
        delay = milliseconds(draft.delay, "delay")
    except ValueError as error:
        raise BadRequest(str(error)) from error
    if not 0 <= delay <= limits.max_delay:
        raise BadRequest(f"delay: it lies between 0 and {limits.max_delay} milliseconds")
    return delay


def _instant(instant: datetime | str | None, field: str) -> int | None:
    if instant is None:
        return None
    try:
        at = instant_in(instant_out(instant, field))
        if at.tzinfo is None:
            raise ValueError("it has no zone: add Z or an offset such as +02:00")
    except ValueError as error:
        raise BadRequest(f"{field}: {error}") from error
    since = at - _EPOCH
    return since.days * 86_400_000 + since.seconds * 1000 + -(-since.microseconds // 1000)
