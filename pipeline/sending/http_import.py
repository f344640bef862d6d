"""Imports drafts through a server over HTTP, for stores that one process alone may write, and for users without a DSN.

Each row is a publish with an idempotency key of its own; a task has several under way at a time, the rows of one
ordering key one after the other. This runs in Spark's workers, and uses neither Spark's session nor trio.

An answer `replayed` says that the row has its message already: from an earlier import, or from a try of this one whose
answer was lost. If there may have been such a try, the time when the message was accepted decides.
"""

import zlib
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any

from attrs import field, frozen
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from ...client.calls import Call, Reply, document_of, part
from ...client.coroutines import drive
from ...client.credentials import key_from
from ...client.errors import BadRequest, IdempotencyConflict, TarryError, Unavailable
from ...client.errors import NotFound as NotThere
from ...client.tarry import Tarry
from ...client.transport import ThreadTransport
from ...store.content import LABELS
from ..arrow import Batch
from ..errors import NotFound, PipelineError, StoreAway
from ..pace import Pace
from ..times import milliseconds_of
from .mysql_import import Written
from .row_counts import Address, tell

NO_TOPIC = (
    "there is no topic {topic!r}, and this job makes none: make it once, "
    'curl -X PUT SERVER/v1/topics/{topic} -H "Content-Type: application/json" -d "{{}}"'
)
_CLOCKS = 1_000
"""Milliseconds by which the clocks of two nodes may differ."""
_THREADS = 16
_FORM = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_CHUNK = 500


@frozen
class Target:
    """The topic to which a task publishes, and how."""

    server: str
    topic: str
    ordered: bool
    rate: float | None
    began: int
    """When this import began, Unix milliseconds by the store's clock, as `clock_of` gives it."""
    watcher: Address | None = None
    key: str | None = field(factory=key_from, repr=False, kw_only=True)
    """The API key, read where the job is started: its tasks have another environment."""


@contextmanager
def translated() -> Generator[None]:
    """Around calls to a server. Raises `NotFound`, `StoreAway` and `PipelineError` for the client's errors."""
    try:
        yield
    except NotThere as error:
        raise NotFound(str(error)) from error
    except Unavailable as error:
        raise StoreAway(f"the server is away, and the job stopped: {error}") from error
    except TarryError as error:
        raise PipelineError(f"the server refuses: {error}") from error


def look_up(server: str, topic: str, group: str | None = None, *, deadline: float = 10.0) -> dict[str, Any]:
    """A topic, or a group of it, as the server has it. Raises `NotFound`, and `StoreAway` after `deadline` seconds."""
    with translated(), Tarry(server, timeout=10, deadline=deadline) as tarry:
        return tarry.topic(topic) if group is None else tarry.group(topic, group)


def check_topic(server: str, topic: str) -> dict[str, Any]:
    """The topic as the server has it. Raises `NotFound`, `StoreAway` and `PipelineError`."""
    try:
        return look_up(server, topic)
    except NotFound as error:
        raise NotFound(NO_TOPIC.format(topic=topic)) from error


def clock_of(server: str, topic: str) -> int:
    """The store's time, Unix milliseconds: the first bucket of `upcoming` begins then. Raises as `look_up` does."""
    with translated(), Tarry(server, timeout=10, deadline=10) as tarry:
        answer = tarry.upcoming(topic, buckets=1, width="1s")
    return milliseconds_of(datetime.fromisoformat(answer["buckets"][0]["at"]))


def columns(parted: DataFrame) -> DataFrame:
    """The columns that `write` takes: the request as JSON, and the ordering key."""
    body, content_type = fn.col("body"), fn.col("content_type")
    values = {
        "body": fn.when(content_type.isNull(), body.cast("string")),
        "body_base64": fn.when(content_type.isNotNull(), fn.concat(fn.lit('"'), fn.base64(body), fn.lit('"'))),
        **{name: _json(fn.col(name)) for name in ("content_type", *LABELS)},
        "headers": fn.col("headers"),
        "delay": fn.col("delay").cast("string"),
        **{name: _json(fn.date_format(fn.timestamp_millis(name), _FORM)) for name in ("deliver_at", "expires_at")},
        "idempotency_key": _json(fn.col("mark")),
    }
    fields = fn.concat_ws(",", *(fn.concat(fn.lit(f'"{name}":'), value) for name, value in values.items()))
    return parted.select(fn.concat(fn.lit("{"), fields, fn.lit("}")).alias("request"), "ordering_key")


def _json(text: Column) -> Column:
    """A text as JSON."""
    listed = fn.to_json(fn.array(text))
    return fn.when(text.isNotNull(), fn.substr(listed, fn.lit(2), fn.length(listed) - 2))


def write(target: Target, batches: Iterable[Batch]) -> Written:
    """Publishes all rows of a task. Raises `NotFound`, `StoreAway` and `PipelineError`."""
    written = Written()
    pace = Pace(target.rate)
    task = TaskContext.get()
    again = task is not None and task.attemptNumber() > 0
    transport = ThreadTransport(target.server, timeout=10, deadline=60, key=target.key)
    publisher = _Publisher(transport, target, again)
    with translated(), closing(publisher), ThreadPoolExecutor(_THREADS) as threads:
        for chunk in _chunks(batches, pace.at_a_time(_CHUNK)):
            pace.take(len(chunk))
            lanes: list[list[str]] = [[] for _ in range(_THREADS)]
            for index, (request, key) in enumerate(chunk):
                lane = index if not target.ordered or key is None else zlib.crc32(key.encode())
                lanes[lane % _THREADS].append(request)
            for done in threads.map(publisher.publish, lanes):
                written.imported += done.imported
                written.skipped += done.skipped
                written.refused += done.refused
            tell(target.watcher, len(chunk))
    pace.finish()
    return written


def _chunks(batches: Iterable[Batch], most: int) -> Iterator[list[tuple[str, str | None]]]:
    for batch in batches:
        requests = batch.column("request").to_pylist()
        keys = batch.column("ordering_key").to_pylist()
        rows = list(zip(requests, keys, strict=True))
        for begin in range(0, len(rows), most):
            yield rows[begin : begin + most]


@frozen
class _Publisher:
    transport: ThreadTransport
    target: Target
    again: bool
    """A task before this one may have published some of the same rows, and died."""

    def publish(self, requests: list[str]) -> Written:
        """Publishes these rows, one after the other."""
        done = Written()
        path = f"/v1/topics/{part(self.target.topic)}/messages"
        for request in requests:
            try:
                reply = drive(self.transport.send(Call("POST", path, _whole, request.encode())))
            except IdempotencyConflict:  # its --id was imported before, with another content
                done.skipped += 1
            except BadRequest:
                done.refused += 1
            else:
                if reply.document.get("replayed") and not self._is_ours(reply):
                    done.skipped += 1
                else:
                    done.imported += 1
        return done

    def close(self) -> None:
        """Closes the connections."""
        drive(self.transport.close())

    def _is_ours(self, reply: Reply) -> bool:
        """Whether the message that was there already came from this import."""
        if not (reply.in_doubt or self.again):
            return False
        try:
            call = Call("GET", f"/v1/messages/{part(reply.document['id'])}", document_of)
            message = drive(self.transport.send(call))
        except NotThere:  # settled and taken by retention meanwhile
            return False
        return milliseconds_of(datetime.fromisoformat(message["published_at"])) >= self.target.began - _CLOCKS


def _whole(reply: Reply) -> Reply:
    return reply
