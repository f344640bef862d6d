"""`publish` and `cancel`."""

import base64
import json as json_text
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, cast

import attrs
from cyclopts import Parameter
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...client import Draft, Receipt, Tarry
from .options import AsText, At, Between, ContentType, Delay, ExpiresAt, Guard, Header, OrderingKey, Tag
from .printing import UsageError, note
from .rendering import receipt_record, time_text
from .server import HERE, Server

_DRAFT_FIELDS = {field.name for field in attrs.fields(Draft)}


def publish(
    topic: str,
    body: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    text: AsText = False,
    content_type: ContentType = None,
    key: Annotated[str | None, Parameter(help="A label to find and cancel it by.")] = None,
    delay: Delay = None,
    at: At = None,
    between: Between = None,
    expires_at: ExpiresAt = None,
    header: Header = None,
    tag: Tag = None,
    ordering_key: OrderingKey = None,
    guard: Guard = None,
    file: Annotated[
        Path | None,
        Parameter(
            allow_leading_hyphen=True,
            help='Publish each line of this file (- is stdin): {"body": ..., "key": ..., "delay": ...}.',
        ),
    ] = None,
    server: Server = HERE,
) -> int:
    """Publish a message now or later, or many from a file.

    Parameters
    ----------
    topic
        The topic; it comes into being at first use.
    body
        JSON, or - to read it from stdin.
    """
    if (body is None) == (file is None):
        raise UsageError("publish takes a BODY (- reads it from stdin) or --file, one of them")
    draft = Draft(
        body=None if file is not None else body_of(body or "", text, content_type),
        content_type=content_type,
        key=key,
        delay=delay,
        deliver_at=at,
        deliver_between=between,
        expires_at=expires_at,
        headers=headers_of(header),
        tag=tag,
        ordering_key=ordering_key,
        guard=guard,
    )
    with server.client() as tarry:
        try:
            if file is not None:
                receipts = _publish_file(tarry, topic, file, draft)
            else:
                receipts = [tarry.publish(topic, **attrs.asdict(draft, recurse=False))]
        except ValueError as error:  # what JSON cannot hold, such as NaN
            raise UsageError(str(error)) from error
    if file is not None and not server.json:
        note(f"published {len(receipts)} messages to {topic}")
        return 0
    rows = [(r.id, r.state, time_text(r.deliver_at), r.queue, r.offset) for r in receipts]
    return server.show(map(receipt_record, receipts), ("id", "state", "deliver at", ">queue", ">offset"), rows)


def body_of(text: str, is_text: bool, content_type: str | None) -> Any:
    """What a body on the command line means; - reads stdin. Raises `UsageError`."""
    raw = sys.stdin.buffer.read() if text == "-" else text.encode("utf-8", "surrogateescape")
    if content_type is not None:
        return raw
    try:
        decoded = raw.decode()
        return decoded if is_text else json_text.loads(decoded)
    except ValueError as error:
        raise UsageError(
            f"the body is not JSON ({error}); --text sends it as a string, --content-type as bytes"
        ) from error


def headers_of(pairs: list[str] | None) -> dict[str, str] | None:
    """From NAME=VALUE. Raises `UsageError`."""
    if not pairs:
        return None
    headers: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f'--header takes NAME=VALUE, not "{pair}"')
        headers[name] = value
    return headers


def _publish_file(tarry: Tarry, topic: str, file: Path, pattern: Draft) -> list[Receipt]:
    console = Console(stderr=True)
    columns = (TextColumn("publishing"), MofNCompleteColumn(), TimeElapsedColumn())
    source = nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb")
    with source as lines, Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("publishing", total=None)

        def count(receipts: list[Receipt]) -> None:
            progress.advance(task, len(receipts))

        return tarry.publish_many(topic, _drafts(lines, pattern), on_batch=count)


def _drafts(lines: Iterable[bytes], pattern: Draft) -> Iterator[Draft]:
    """A draft for each line; what a line leaves out comes from the flags."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json_text.loads(line)
        except ValueError as error:
            raise UsageError(f"line {number} is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise UsageError(f'line {number} is not an object such as {{"body": ..., "key": ...}}')
        yield _draft(number, cast("dict[str, Any]", fields), pattern)


def _draft(number: int, fields: dict[str, Any], pattern: Draft) -> Draft:
    try:
        if "body_base64" in fields:
            fields["body"] = base64.b64decode(fields.pop("body_base64"), validate=True)
    except (ValueError, TypeError) as error:
        raise UsageError(f"line {number}: body_base64: {error}") from error
    if isinstance(fields.get("delay"), int):  # a line is JSON, where a number is milliseconds, as over HTTP
        fields["delay"] = timedelta(milliseconds=fields["delay"])
    if "body" not in fields:
        raise UsageError(f"line {number} has no body")
    if unknown := fields.keys() - _DRAFT_FIELDS:
        names = ", ".join(sorted(unknown))
        raise UsageError(f"line {number}: unknown {names}; the fields are {', '.join(sorted(_DRAFT_FIELDS))}")
    return attrs.evolve(pattern, **fields)


def cancel(
    id: Annotated[str | None, Parameter(help="The message's id.")] = None,  # noqa: A002
    /,
    *,
    topic: Annotated[str | None, Parameter(help="With --key: the topic.")] = None,
    key: Annotated[str | None, Parameter(help="All messages of this key that wait, its timer among them.")] = None,
    server: Server = HERE,
) -> int:
    """Cancel a waiting message, or all of a key.

    Exit code 4 when it was handed out already, 3 when there is none.
    """
    if (id is None) == (key is None) or (topic is None) != (key is None):
        raise UsageError("cancel takes an ID, or --topic with --key")
    with server.client() as tarry:
        if id is None:
            done = tarry.cancel_key(topic or "", key or "")
            return server.show([done], (">cancelled", ">too late"), [(done["cancelled"], done["too_late"])])
        result = tarry.cancel(id)
    return server.show([{"id": id, "result": result}], ("id", "result"), [(id, result)])
