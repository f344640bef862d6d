"""`publish`, `consume`, `cancel`, `peek`, `topics`: the commands that talk to a server through `tarry.client`."""

import base64
import json as json_text
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...client import Claim, Draft, LeaseLost, Message, Receipt, Tarry
from .printing import note, print_json, print_table
from .usage import UsageError

_PATIENCE = 5.0
"""Seconds that a command tries a server that is away before it ends with 75."""

_DRAFT_FIELDS = {field.name for field in attrs.fields(Draft)}


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Server:
    """Which server, and how its answers are shown."""

    url: Annotated[str, Parameter(env_var="TARRY_URL", help="The server.")] = "http://127.0.0.1:8277"
    json: Annotated[bool, Parameter(negative=(), help="One JSON line per item.")] = False

    @contextmanager
    def client(self) -> Generator[Tarry, None, None]:
        """A client of the server."""
        try:
            tarry = Tarry(self.url, deadline=_PATIENCE)
        except ValueError as error:
            raise UsageError(str(error)) from error
        with tarry:
            yield tarry


_HERE = Server()


def publish(
    topic: str,
    body: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    text: Annotated[bool, Parameter(negative=(), help="BODY is text, not JSON.")] = False,
    content_type: Annotated[str | None, Parameter(help="BODY is bytes of this type, not JSON.")] = None,
    key: Annotated[str | None, Parameter(help="A label to find and cancel it by.")] = None,
    delay: Annotated[str | None, Parameter(help="Deliver after this time: 10m, 48h, PT10M.")] = None,
    at: Annotated[str | None, Parameter(help="Deliver at this time: 2030-01-01T09:00:00Z.")] = None,
    header: Annotated[list[str] | None, Parameter(help="A header NAME=VALUE; may be repeated.", negative=())] = None,
    tag: Annotated[str | None, Parameter(help="What consumers may select by.")] = None,
    ordering_key: Annotated[str | None, Parameter(help="Messages of one ordering key share a queue.")] = None,
    file: Annotated[
        Path | None, Parameter(help='Publish each line of this file (- is stdin): {"body": ..., "key": ..., "delay": ...}.')
    ] = None,
    server: Server = _HERE,
) -> int:
    """Publish a message now, after --delay or at a time; or many from --file.

    Parameters
    ----------
    topic
        The topic; it comes into being at first use.
    body
        JSON, or - to read it from stdin.
    """
    if (body is None) == (file is None):
        raise UsageError("publish takes a BODY (- reads it from stdin) or --file, one of them")
    common = {
        "key": key,
        "delay": int(delay) if delay and delay.isdecimal() else delay,
        "deliver_at": at,
        "headers": _headers(header),
        "tag": tag,
        "ordering_key": ordering_key,
    }
    given = {name: value for name, value in common.items() if value is not None}
    with server.client() as tarry:
        if file is not None:
            receipts = _publish_file(tarry, topic, file, given)
        else:
            given["content_type"] = content_type
            try:
                receipts = [tarry.publish(topic, _body(body or "", text, content_type), **given)]
            except ValueError as error:
                raise UsageError(str(error)) from error
    if server.json:
        for receipt in receipts:
            print_json(_receipt(receipt))
    elif file is not None:
        note(f"published {len(receipts)} messages to {topic}")
    else:
        rows = [(r.id, r.state, _time(r.deliver_at), r.queue, r.offset) for r in receipts]
        print_table(("id", "state", "deliver at", ">queue", ">offset"), rows)
    return 0


def _body(text: str, is_text: bool, content_type: str | None) -> Any:
    if text == "-":
        raw = sys.stdin.buffer.read()
    else:
        raw = text.encode("utf-8", "surrogateescape")
    if content_type is not None:
        return raw
    try:
        decoded = raw.decode()
        return decoded if is_text else json_text.loads(decoded)
    except ValueError as error:
        raise UsageError(
            f"the body is not JSON ({error}); --text sends it as a string, --content-type as bytes"
        ) from error


def _headers(pairs: list[str] | None) -> dict[str, str] | None:
    if not pairs:
        return None
    headers: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f'--header takes NAME=VALUE, not "{pair}"')
        headers[name] = value
    return headers


def _publish_file(tarry: Tarry, topic: str, file: Path, given: dict[str, Any]) -> list[Receipt]:
    console = Console(stderr=True)
    columns = (TextColumn("publishing"), MofNCompleteColumn(), TimeElapsedColumn())
    with _lines(file) as lines, Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("publishing", total=None)

        def count(receipts: list[Receipt]) -> None:
            progress.advance(task, len(receipts))

        try:
            return tarry.publish_many(topic, _drafts(lines, given), on_batch=count)
        except ValueError as error:
            raise UsageError(str(error)) from error


@contextmanager
def _lines(file: Path) -> Generator[Iterator[bytes], None, None]:
    if str(file) == "-":
        yield iter(sys.stdin.buffer)
    else:
        with file.open("rb") as lines:
            yield iter(lines)


def _drafts(lines: Iterator[bytes], given: dict[str, Any]) -> Iterator[Draft]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json_text.loads(line)
        except ValueError as error:
            raise UsageError(f"line {number} is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise UsageError(f'line {number} is not an object such as {{"body": ..., "key": ...}}')
        if "body_base64" in fields:
            fields["body"] = base64.b64decode(fields.pop("body_base64"))
        if "body" not in fields or (unknown := fields.keys() - _DRAFT_FIELDS):
            names = ", ".join(sorted(unknown)) if "body" in fields else "no body"
            raise UsageError(f"line {number}: {names}; the fields are {', '.join(sorted(_DRAFT_FIELDS))}")
        yield Draft(**{**given, **fields})


def cancel(id: Annotated[str, Parameter(help="The message's id.")], /, *, server: Server = _HERE) -> int:  # noqa: A002
    """Cancel a waiting message. Exit code 4 when it was handed out already, 3 when there is none."""
    with server.client() as tarry:
        result = tarry.cancel(id)
    if server.json:
        print_json({"id": id, "result": result})
    else:
        print_table(("id", "result"), [(id, result)])
    return 0


def peek(
    topic: str,
    /,
    *,
    queue: Annotated[int, Parameter(help="Which queue of the topic.")] = 0,
    offset: Annotated[int, Parameter(help="From this offset on.")] = 0,
    max: Annotated[int, Parameter(help="At most so many.")] = 20,  # noqa: A002 - the contract's word
    server: Server = _HERE,
) -> int:
    """Look at a topic's stream without claiming anything. Waiting messages are not in it yet."""
    with server.client() as tarry:
        page = tarry.pull(topic, queue, offset, max)
    if server.json:
        for message in page.messages:
            print_json(_message(message))
    else:
        rows = [(m.offset, m.id, m.key, _time(m.deliver_at), _text(m)) for m in page.messages]
        print_table((">offset", "id", "key", "deliver at", "body"), rows)
        if page.messages:
            note(f"next: --offset {page.next_offset}")
    return 0


def topics(*, server: Server = _HERE) -> int:
    """List the topics with their counts."""
    with server.client() as tarry:
        records = tarry.topics()
    if server.json:
        for record in records:
            print_json(record)
    else:
        counts = [
            name
            for name in ("accepted", "streamed", "cancelled", "pending", "backlog", "rate")
            if any(name in record for record in records)
        ]
        rows = [
            (r.get("topic") or r.get("name"), r.get("kind"), _count(r.get("queues")), *(r.get(name) for name in counts))
            for r in records
        ]
        print_table(("topic", "kind", ">queues", *(f">{name}" for name in counts)), rows)
    return 0


def consume(
    topic: str,
    /,
    *,
    group: Annotated[str, Parameter(help="The consumer group; it comes into being at first use.")],
    max: Annotated[int | None, Parameter(help="End after so many messages.")] = None,  # noqa: A002
    follow: Annotated[bool, Parameter(negative=(), help="Wait for more, until Ctrl-C.")] = False,
    ack: Annotated[bool, Parameter(help="With --no-ack, show them and give them back.")] = True,
    exec: Annotated[  # noqa: A002 - the contract's word
        list[str] | None,
        Parameter(
            help="Run this command for each message, the body on its stdin; if it fails, so does the message. Last flag.",
            consume_multiple=True,
            allow_leading_hyphen=True,
            negative=(),
        ),
    ] = None,
    server: Server = _HERE,
) -> int:
    """Take messages, print them and ack them: what is there now, or with --follow for ever."""
    if max is not None and max < 1:
        raise UsageError("--max is 1 or more")
    if not ack and (follow or exec):
        raise UsageError("--no-ack goes with neither --follow nor --exec: it only shows what is there now")
    with server.client() as tarry:
        if not ack:
            _show(tarry, topic, group, max or 1000, server)
            return 0
        size = min(max or 10, 10)
        idle = None if follow else 1.0
        deliveries = tarry.consume(topic, group, max=size, wait="1s", limit=max, idle_timeout=idle)
        for delivery in deliveries:
            with delivery:
                if not exec:
                    _print_message(delivery, server)
                elif (code := subprocess.run(exec, input=_raw(delivery), check=False).returncode) != 0:  # noqa: S603
                    note(f"message {delivery.id}: {exec[0]} ended with {code}")
                    delivery.fail(f"{exec[0]} ended with {code}")
    return 0


def _show(tarry: Tarry, topic: str, group: str, limit: int, server: Server) -> None:
    claims: list[Claim] = []
    try:
        while limit > 0 and (claim := tarry.claim(topic, group, max=min(limit, 1000))) is not None:
            claims.append(claim)
            limit -= len(claim.messages)
            for message in claim.messages:
                _print_message(message, server)
    finally:
        for claim in claims:
            with suppress(LeaseLost):
                tarry.fail(claim, reason="shown", retry_after=0, count=False)


def _print_message(message: Message, server: Server) -> None:
    if server.json or not sys.stdout.isatty():
        print_json(_message(message))
    else:
        label = "" if message.key is None else f"  {message.key}"
        Console(highlight=False).print(
            f"{message.id}  attempt {message.attempt}{label}  {_text(message)}", markup=False, soft_wrap=True
        )


def _message(message: Message) -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": message.id,
        "topic": message.topic,
        "queue": message.queue,
        "offset": message.offset,
        "key": message.key,
        "ordering_key": message.ordering_key,
        "tag": message.tag,
        "headers": dict(message.headers),
        "attempt": message.attempt,
        "published_at": _time(message.published_at),
        "deliver_at": _time(message.deliver_at),
    }
    if isinstance(message.body, bytes):
        encoded = base64.b64encode(message.body).decode("ascii")
        return record | {"body_base64": encoded, "content_type": message.content_type}
    return record | {"body": message.body}


def _receipt(receipt: Receipt) -> dict[str, Any]:
    return attrs.asdict(receipt) | {"deliver_at": _time(receipt.deliver_at)}


def _raw(message: Message) -> bytes:
    return message.body if isinstance(message.body, bytes) else json_text.dumps(message.body, ensure_ascii=False).encode()


def _text(message: Message) -> str:
    if isinstance(message.body, bytes):
        return f"{len(message.body)} bytes of {message.content_type}"
    return json_text.dumps(message.body, ensure_ascii=False)


def _time(moment: Any) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _count(queues: Any) -> Any:
    return len(queues) if isinstance(queues, list) else queues
