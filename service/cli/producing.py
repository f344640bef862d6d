"""The commands `publish` and `cancel`."""

import json as json_text
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...client import Draft, Receipt, Tarry
from ...client.bodies import encode
from .flags import whole
from .lines import Lines, check
from .options import AsText, At, Between, ContentType, Delay, ExpiresAt, Guard, Header, OrderingKey, Tag
from .printing import UsageError, note
from .rendering import receipt_record, time_text
from .server import HERE, Server


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
    from_line: Annotated[
        int | None, whole("With --file: begin at this line, the first being 1; an error tells where to go on.")
    ] = None,
    server: Server = HERE,
) -> int:
    """Publish a message now or later, or many from a file.

    Parameters
    ----------
    topic
        The topic; it is created at first use.
    body
        JSON, or - to read it from stdin.
    """
    if (body is None) == (file is None):
        raise UsageError("publish takes a BODY (- reads it from stdin) or --file, one of them")
    if from_line is not None and (file is None or from_line < 1):
        raise UsageError("--from-line goes with --file, and is 1 or more")
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
                receipts = _publish_file(tarry, topic, file, draft, from_line or 1)
            else:
                receipts = [tarry.publish(topic, **attrs.asdict(draft, recurse=False))]
        except ValueError as error:  # a value that JSON cannot hold, such as NaN
            raise UsageError(str(error)) from error
    if file is not None and not server.json:
        note(f"published {len(receipts)} messages to {topic}")
        return 0
    rows = [(r.id, r.state, time_text(r.deliver_at), r.queue, r.offset) for r in receipts]
    return server.show(map(receipt_record, receipts), ("id", "state", "deliver at", ">queue", ">offset"), rows)


def body_of(text: str, is_text: bool, content_type: str | None) -> Any:
    """The body from the command line, or from stdin if it is `-`. Raises `UsageError`."""
    raw = sys.stdin.buffer.read() if text == "-" else text.encode("utf-8", "surrogateescape")
    if content_type is not None:
        return raw
    try:
        decoded = raw.decode()
        return decoded if is_text else _valid(json_text.loads(decoded))
    except ValueError as error:
        raise UsageError(
            f"the body is not JSON ({error}); --text sends it as a string, --content-type as bytes"
        ) from error


def _valid(document: Any) -> Any:
    """Raises ValueError for NaN and unpaired surrogates, which Python's parser accepts."""
    encode(document, "body")
    return document


def headers_of(pairs: list[str] | None) -> dict[str, str] | None:
    """Headers from NAME=VALUE pairs. Raises `UsageError`."""
    if not pairs:
        return None
    headers: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f'--header takes NAME=VALUE, not "{pair}"')
        headers[name] = value
    return headers


def _publish_file(tarry: Tarry, topic: str, file: Path, pattern: Draft, first: int) -> list[Receipt]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    source = nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb")
    with source as read, Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        lines = Lines(read, pattern, first)
        task = progress.add_task("reading", total=None)

        def count(receipts: list[Receipt]) -> None:
            lines.answered(receipts)
            progress.advance(task, len(receipts))

        try:
            if str(file) != "-" and file.is_file():  # a pipe can be read only once
                for number in check(read, pattern, first):
                    if number % 1000 == 0:
                        progress.update(task, completed=number)
                read.seek(0)
            progress.update(task, description="publishing", completed=0)
            return tarry.publish_many(topic, lines.drafts(), on_batch=count)
        except (Exception, KeyboardInterrupt) as error:
            lines.failed(error)


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
