"""What does a message cost while a million, ten million or a hundred million others wait?

    python -m tarry.bench.pending --dsn mysql://root@127.0.0.1:3306/any --points 1000000 3000000 10000000
    python -m tarry.bench.pending --dsn mysql --points 10000000 30000000 100000000 --hours 720

One database holds more and more waiting messages of 200 bytes, spread evenly over the next hours; bulk SQL writes them.
The horizon is 3 hours: with `--hours 2.5` all of them are in the wheel, with 720 one in 240. Measured at each point,
through a real server unless noted:

    bytes_each        memory of the server for each message within the horizon, less its memory with none
    scheduled_per_s   messages scheduled as --lines lines of one request, due at random times in the same hours
    drained_per_s     a burst of --burst messages due in one second: from its beginning until all are in the stream
    p50_ms, p99_ms    lateness at consumers, as in bench/lateness.py
    first_s           from a start after kill -9 to the first message that fell due meanwhile
    recovered_s       from the same start until every message within the horizon is in the wheel
    cleaned_per_s     settled messages removed by the service's cleaner without a server, while 8 callers publish
    publish_ms        p99 of a publish by these callers before the cleaning
    archived_per_s    messages archived to a lake by Spark on this machine

`times` in the last line is the last point's figure divided by the first's.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path
from statistics import median

import trio

from ..client import Tarry
from ..pipeline import session
from ..service.demo.server_process import ServerProcess
from ..service.settings import Settings
from ..store.catalogue import TopicDraft
from ..store.ids import COUNT_BITS, OUTBOX_COUNTS, SEQUENCE_BITS, SHARD_BITS, SHARDS
from ..store.records import Topic
from . import archive, cleaning, databases, lateness, restart
from .line_load import send_lines
from .report import Figures, chosen, say, show, summarize
from .scheduling import lines, schedule
from .subject import BODY, add_topic, now, opened, served
from .usage import rss_of

_LEAD = 1_800_000
"""Milliseconds until the first waiting message may fall due, so that none does during the measurement."""
_CHUNK = 100_000
_GROWTHS = 16
_COUNTS = OUTBOX_COUNTS // _GROWTHS
"""Counts of ids for each growth: far more than one has messages of a shard in a millisecond."""
_FIRST_COUNT = (1 << COUNT_BITS) - OUTBOX_COUNTS
"""The outboxes' counts begin here. The server never takes one of these for what is scheduled meanwhile."""
_DIGITS = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
_NUMBERS = "a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d"
_HELD_SECONDS = 300
_BURST_SECONDS = 120
"""The most seconds from the request until a whole burst is in the stream."""
_TOLD = (
    "bytes_each",
    "scheduled_per_s",
    "drained_per_s",
    "p50_ms",
    "p99_ms",
    "first_s",
    "recovered_s",
    "cleaned_per_s",
    "publish_ms",
    "archived_per_s",
)


def main() -> None:
    parser = databases.options("pending", __doc__, "mysql")
    parser.add_argument("--points", type=databases.count, nargs="+", default=[100_000, 1_000_000], help="that wait")
    parser.add_argument("--hours", type=databases.seconds, default=2.5, help="over which they fall due")
    parser.add_argument("--rate", type=databases.count, default=500, help="due a second, of the lateness")
    parser.add_argument("--seconds", type=databases.seconds, default=10, help="of the lateness, and of the cleaning")
    parser.add_argument("--lines", type=databases.count, default=100_000, help="that are scheduled at each point")
    parser.add_argument("--burst", type=databases.count, default=20_000, help="that are due in one second")
    parser.add_argument("--settled", type=databases.count, default=200_000, help="that are removed")
    parser.add_argument("--archive", action=argparse.BooleanOptionalAction, default=True, help="to a lake, too")
    parser.add_argument("--starts", type=databases.count, default=3, help="after kill -9, of which the median")
    arguments = parser.parse_args()
    if arguments.hours * 3_600_000 <= _LEAD:
        parser.error("--hours: more than half an hour, so that none falls due meanwhile")
    arguments.points = sorted(set(arguments.points))
    if len(arguments.points) > _GROWTHS:
        parser.error(f"--points: {_GROWTHS} at most")
    with databases.server(arguments.dsn) as dsn, databases.scratch(dsn) as scratch:
        settings = databases.durability(dsn)
        topic = trio.run(_begin, scratch)
        empty = _memory(scratch)
        found: list[Figures] = []
        written = 0
        for growth, point in enumerate(arguments.points):
            grow(scratch, topic, growth, point - written, arguments.hours)
            written = point
            found.append({"pending": point, "store": settings["store"], **measure(scratch, point, empty, arguments)})
            show({"bench": "pending", "hours": arguments.hours, **found[-1]})
    first, last = found[0], found[-1]
    times = {name: round(last[name] / first[name], 2) for name in _TOLD if name in last}
    summarize("pending", **chosen(arguments, "points", "hours", "rate", "lines", "burst"), **settings, times=times)


async def _begin(dsn: str) -> Topic:
    async with opened(dsn) as store:
        return await add_topic(store, TopicDraft("pending"))


def _memory(dsn: str) -> int:
    with served(dsn) as server:
        restart.wait_until_recovered(server, 1)
        return rss_of(server.pid)


def grow(dsn: str, topic: Topic, growth: int, rows: int, hours: float) -> None:
    """Adds waiting messages, straight in the table; the topic's counts and forecast do not include them.

    The rows are written in the order of their due times, so that the database fills its pages one after another; each
    call spreads its messages over all hours. `growth`: how many calls there were before, 15 at most.
    """
    first, span = now() + _LEAD, round(hours * 3_600_000) - _LEAD
    sqlite = dsn.startswith(databases.SQLITE)
    due = f"{first} + n * {span} {'/' if sqlite else 'DIV'} {rows}"
    queue = topic.queues[0].id
    # Bits of the growth and of the row number in place of random ones, so that no two rows get the same id.
    shard = f"n % {SHARDS}"
    count = f"({_FIRST_COUNT + growth * _COUNTS} + (n >> {SHARD_BITS}) % {_COUNTS}) << {SHARD_BITS}"
    with databases.bulk(dsn) as execute:
        if not sqlite:
            execute("SET SESSION sql_log_bin = 0")  # the binary log would take as much disk again
        for start in range(0, rows, _CHUNK):
            say(f"writing {start} of {rows}")
            execute(
                "INSERT INTO delay (shard, id, due, nonce, topic_id, queue_id, body, accepted_at, deliver_at)"
                f" SELECT {shard}, (due << {SEQUENCE_BITS}) + ({count}) + {shard}, due, 0, {topic.id}, {queue},"
                f" x'{BODY.hex()}', {now()}, due FROM (SELECT n, {due} AS due FROM (SELECT {start} + {_NUMBERS} AS n"
                f" FROM ({_DIGITS}) a, ({_DIGITS}) b, ({_DIGITS}) c, ({_DIGITS}) e, ({_DIGITS}) f) some_numbers"
                f" WHERE n < {rows}) some_times"
            )


def measure(dsn: str, point: int, empty: int, arguments: argparse.Namespace) -> Figures:
    """Measures one point; all points share one database."""
    hours = arguments.hours
    within = round(point * min(1.0, (Settings().horizon - _LEAD) / (hours * 3_600_000 - _LEAD)))
    with served(dsn) as server:
        _wait_until_held(server, within)
        held = rss_of(server.pid) - empty
        figures: Figures = {
            "mb": held >> 20,
            "bytes_each": round(held / within, 1),
            "scheduled_per_s": _schedule(server, arguments.lines, hours),
            "drained_per_s": _drain(server, arguments.burst, point),
        }
        late = lateness.measure_on(server, arguments.rate, arguments.seconds)
        figures |= {name: late[name] for name in ("p50_ms", "p99_ms", "early")}
    say("killing")
    starts = restart.measure(dsn, point, arguments.starts)
    figures |= {name: median(run[name] for run in starts) for name in ("first_s", "recovered_s")}
    cleaned = trio.run(cleaning.measure, dsn, arguments.settled, arguments.seconds, None, f"old{point}")
    figures |= {"cleaned_per_s": cleaned["removed_per_s"], "publish_ms": cleaned["before"]["p99_ms"]}
    if arguments.archive:
        figures["archived_per_s"] = _archive(dsn)
    return figures


def _wait_until_held(server: ServerProcess, within: int) -> None:
    """Until the server has all of them in its wheel. At first it leaves some to servers that were killed just before,
    which count as alive for some seconds."""
    deadline = time.monotonic() + _HELD_SECONDS
    with Tarry(server.url) as tarry:
        while sum(one["timers"] for one in tarry.nodes() if one["url"].endswith(f":{server.port}")) < within:
            if time.monotonic() > deadline:
                raise AssertionError(f"it had not all {within} in its wheel after {_HELD_SECONDS} s")
            time.sleep(0.2)


def _schedule(server: ServerProcess, many: int, hours: float) -> int:
    return round(many / schedule(server.port, many, now() + _LEAD, round(hours * 3_600_000) - _LEAD, "more"))


def _drain(server: ServerProcess, many: int, point: int) -> int:
    topic = f"burst{point}"
    first = now() + 10_000
    send_lines(server.port, lines(many, lambda: first + random.randrange(1000)), many, topic=topic)
    deadline, count = time.monotonic() + _BURST_SECONDS, 0
    while time.monotonic() < deadline:
        count, last = databases.streamed(server.dsn, topic)
        if count == many:
            return round(many * 1000 / max(1, last - first))
        time.sleep(0.2)
    raise AssertionError(f"of {many} messages due in one second {count} came in {_BURST_SECONDS} s")


def _archive(dsn: str) -> int:
    with tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder:
        spark = session.open_session("bench", "local[2]")
        try:
            done = archive.run(spark, dsn, Path(folder) / "lake")
        finally:
            spark.stop()
    archive.forget(dsn)  # else later messages are kept until they are archived
    return round(done["rows"] / done["messages_s"])


if __name__ == "__main__":
    main()
