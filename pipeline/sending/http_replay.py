"""Replays runs of offsets to one group, by the service's own replay. This runs in Spark's workers, without trio."""

from collections.abc import Iterable, Iterator

from attrs import field, frozen

from ...client.credentials import key_from
from ...client.tarry import Tarry
from ..arrow import Batch
from ..pace import Pace
from .http_import import translated
from .row_counts import Address, tell


@frozen
class Target:
    """The group to which a task replays, and how."""

    server: str
    topic: str
    group: str
    name: str
    """The name of the replay."""
    rate: float | None
    watcher: Address | None = None
    key: str | None = field(factory=key_from, repr=False, kw_only=True)
    """The API key, read where the job is started: its tasks have another environment."""


def write(target: Target, batches: Iterable[Batch]) -> tuple[int, int]:
    """Replays the runs of a task; returns how many messages, and how many with those that were replayed before.

    Raises `NotFound` for a group that is not there, `StoreAway` and `PipelineError`.
    """
    pace = Pace(target.rate)
    count = wanted = 0
    with translated(), Tarry(target.server, timeout=10, deadline=60, key=target.key) as tarry:
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in ("queue", "begin", "end")]
            for queue, begin, end in zip(*columns, strict=True):
                for first, last in _pieces(begin, end, pace):
                    pace.take(last - first)
                    tell(target.watcher, last - first)
                    count += tarry.replay(target.topic, target.group, first, last, queue=queue, name=target.name)
                    wanted += last - first
        pace.finish()
    return count, wanted


def _pieces(begin: int, end: int, pace: Pace) -> Iterator[tuple[int, int]]:
    """Cuts a run, which may be long: the server replays at once all that one request asks for."""
    size = pace.at_a_time(end - begin)
    for first in range(begin, end, size):
        yield first, min(first + size, end)
