"""What do several servers on one database gain, and what do they cost?

    python -m tarry.bench.nodes --dsn mysql --only publish
    python -m tarry.bench.nodes --dsn mysql --only claim --queues 4
    python -m tarry.bench.nodes --dsn mysql --only publish claim --servers 1 2 3 4 --share 0.25
    python -m tarry.bench.nodes --dsn mysql --only idle polls kill stop memory --runs 1

Real servers (`tarry serve`) on an empty database each time, asked through HTTP. The sections:

    publish, claim   one server and two, or as `--servers` says, on one topic and on several: a second, in turns; what
                     the servers and the database did for each message
    idle             statements a second and server, with nothing to do; with a long poll at each; with Redis
    polls            from a publish at one server to the answer of a long poll at the other, without Redis and with
    kill, stop       `--rate` due a second, two servers, one ends by SIGKILL or SIGTERM: what is lost, early and latest
    memory           timers and memory of each of one, two and three servers with `--pending` timers that were there

Several servers need several machines to gain something. `--share 0.25` makes four small ones of one processor: while
rates are measured each server has a quarter of one, and the database and the load have the rest.
"""

import random
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import trio

from ..client import Tarry
from ..service.demo.server_process import ServerProcess
from . import databases
from .arrivals import Arrivals
from .database_work import with_work
from .line_load import publish_lines
from .raw_load import Claims, Publishes, Script, drive, request
from .report import Figures, chosen, column, percentile, ratios, say, spreads, summarize
from .several import several, start_another, until_shared_out
from .shares import shares
from .subject import BODY
from .usage import cpu_of_all, rss_of

SECTIONS = ("publish", "claim", "idle", "polls", "kill", "stop", "memory")
_KINDS = {1: "one", 2: "two", 3: "three", 4: "four"}
"""By how many servers there are."""
_LEAD = timedelta(seconds=12)
"""From the first schedule of a load to the first that is due: the servers start meanwhile."""
_BEFORE, _AFTER = 3, 5
"""Seconds of a load before one of two servers ends, and after that."""
_PATIENCE = 60
"""Seconds until all of a load must have come."""
_PAGE = 1000


def main() -> None:
    parser = databases.options("nodes", __doc__, default="mysql", runs=3)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="sections")
    parser.add_argument("--seconds", type=databases.seconds, default=2, help="of each measurement of a rate")
    parser.add_argument("--servers", type=int, nargs="+", choices=_KINDS, default=[1, 2], help="of a rate")
    parser.add_argument(
        "--share", type=databases.seconds, help="of a processor that each server has while a rate is measured"
    )
    parser.add_argument("--connections", type=databases.count, nargs="+", default=[24, 192], help="that publish")
    parser.add_argument(
        "--topics", type=databases.count, nargs="+", default=[1, 3], help="that the load is spread over"
    )
    parser.add_argument("--queues", type=databases.count, default=1, help="of each topic")
    parser.add_argument("--consumers", type=databases.count, default=12, help="that claim")
    parser.add_argument("--size", type=databases.count, default=100, help="messages to a claim")
    parser.add_argument("--messages", type=databases.count, default=60_000, help="that claims find waiting")
    parser.add_argument("--idle", type=databases.seconds, default=20, help="seconds for which statements are counted")
    parser.add_argument("--rate", type=databases.count, default=1000, help="due a second where a server ends")
    parser.add_argument("--pending", type=databases.count, default=200_000, help="timers that are held")
    parser.add_argument("--nodes", type=databases.count, nargs="+", default=[1, 2, 3], help="servers that hold them")
    arguments = parser.parse_args()
    if arguments.dsn.startswith("sqlite"):
        parser.error("the embedded store is for one server: name MySQL or MariaDB")
    with databases.server(arguments.dsn) as dsn:
        settings = databases.durability(dsn)
        for section in arguments.only:
            contestants = _contestants(section, arguments)
            runs = databases.alternate(dsn, "nodes", arguments.runs, contestants, section=section)
            _summarize(section, arguments, settings, runs)


def _contestants(section: str, arguments: Namespace) -> dict[str, Callable[[str], Figures]]:
    """By name: what is measured on an empty database."""
    if section == "publish":
        return {
            f"{_KINDS[many]}_{connections}_on_{topics}": partial(publish, many, connections, topics, arguments)
            for connections in arguments.connections
            for topics in arguments.topics
            for many in arguments.servers
        }
    if section == "claim":
        return {
            f"{_KINDS[many]}_on_{topics}": partial(claim, many, topics, arguments)
            for topics in arguments.topics
            for many in arguments.servers
        }
    if section == "idle":
        return {
            f"{name}_{many}": partial(idle, many, arguments.idle, polls=name == "polls", with_redis=name == "redis")
            for name, many in (("idle", 1), ("idle", 2), ("polls", 2), ("redis", 2))
        }
    if section == "polls":
        return {"without_redis": partial(reach, 10, False), "redis": partial(reach, 50, True)}
    if section == "memory":
        return {f"nodes_{many}": partial(memory, many, arguments.pending) for many in arguments.nodes}
    return {section: partial(end, section == "stop", arguments.rate)}


def _summarize(section: str, arguments: Namespace, settings: Figures, runs: list[dict[str, Figures]]) -> None:
    figures = list(next(iter(runs[0].values())))
    numbers = [name for name in figures if isinstance(runs[0][next(iter(runs[0]))][name], int | float)]
    told: Figures = {name: spreads(column(runs, name), 2) for name in numbers}
    if section in ("publish", "claim"):
        rates = column(runs, "per_s")
        told["times_one"] = {
            name: ratios(rates, name, one)
            for name in rates[0]
            if (one := "one_" + name.partition("_")[2]) in rates[0] and one != name
        }
    asked = chosen(arguments, "seconds", "share", "queues", "consumers", "size", "rate", "pending")
    summarize("nodes", section=section, **asked, **settings, **told)


# Rates


def publish(many: int, connections: int, topics: int, arguments: Namespace, dsn: str) -> Figures:
    """Publishes of one message each."""
    with several(dsn, many) as servers:
        _make_topics(servers[0], topics, arguments.queues)
        publishes = Publishes()
        scripts: list[tuple[int, Script]] = []
        for number in range(connections):
            data = request("POST", f"/v1/topics/t{number % topics}/messages", b'{"body":' + BODY + b"}")
            scripts.append((_server_of(number, topics, servers).port, publishes.publisher(data)))
        pids = [server.pid for server in servers]
        load = partial(drive, scripts, arguments.seconds, partial(cpu_of_all, pids))
        with shares(pids, arguments.share):
            return with_work(dsn, load, lambda: publishes.messages)


def claim(many: int, topics: int, arguments: Namespace, dsn: str) -> Figures:
    """Claims of messages that wait, and their acks; the figures are of messages."""
    claims = Claims(arguments.size)
    with several(dsn, many) as servers:
        _make_topics(servers[0], topics, arguments.queues)
        for topic in range(topics):
            for server in servers:
                share = arguments.messages // topics // many
                publish_lines(server.port, BODY, share, keyed=False, topic=f"t{topic}")
        scripts = [
            (_server_of(number, topics, servers).port, claims.consumer(number, f"t{number % topics}"))
            for number in range(arguments.consumers)
        ]
        pids = [server.pid for server in servers]
        load = partial(claims.drive, scripts, arguments.seconds, partial(cpu_of_all, pids))
        with shares(pids, arguments.share):
            return with_work(dsn, load, lambda: claims.messages)


def _server_of(number: int, topics: int, servers: Sequence[ServerProcess]) -> ServerProcess:
    """Of the n-th client, so that each topic has clients at all servers."""
    return servers[number // topics % len(servers)]


def _make_topics(server: ServerProcess, topics: int, queues: int) -> None:
    with Tarry(server.url) as tarry:
        for topic in range(topics):
            tarry.put_topic(f"t{topic}", queues=queues)
            httpx.put(f"{server.url}/v1/topics/t{topic}/groups/g", json={"from": "earliest"}).raise_for_status()


# Idle


def idle(many: int, seconds: float, dsn: str, *, polls: bool, with_redis: bool) -> Figures:
    """What the database is asked while nothing happens."""
    with _redis(with_redis) as redis, several(dsn, many, redis=redis) as servers:
        _make_topics(servers[0], 1, 1)
        waiting = [threading.Thread(target=_poll_once, args=(server, seconds + 10)) for server in servers if polls]
        for one in waiting:
            one.start()
        say("settling")
        time.sleep(5)
        before, began = databases.asked(dsn), time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        asked = databases.asked(dsn) - databases.LOOK - before
    for one in waiting:
        one.join()
    return {"statements_per_s_and_node": round(asked / took / many, 2)}


@contextmanager
def _redis(wanted: bool) -> Generator[str | None, None, None]:
    """The URL of a private one, if it is wanted."""
    if not wanted:
        yield None
        return
    with databases.redis() as port:
        yield f"redis://127.0.0.1:{port}/0"


def _poll_once(server: ServerProcess, seconds: float) -> None:
    asked = {"client": server.url[-5:], "max": 1, "wait": f"{seconds:.0f}s"}
    httpx.post(f"{server.url}/v1/topics/t0/groups/g/claim", json=asked, timeout=seconds + 5)


# From a publish to a poll


def reach(many: int, with_redis: bool, dsn: str) -> Figures:
    """How long it takes a message from one server to who waits at the other."""
    took: list[float] = []
    with (
        _redis(with_redis) as redis,
        several(dsn, 2, redis=redis) as servers,
        Tarry(servers[0].url) as here,
        Tarry(servers[1].url) as there,
    ):
        _make_topics(servers[0], 1, 1)
        here.publish("t0", 0)
        first = there.claim("t0", "g", client="c", wait="5s")
        if first is not None:
            there.ack(first)
        for number in range(many):
            say(f"poll {number} of {many}")
            arrived: list[float] = []

            def poll(arrived: list[float] = arrived) -> None:
                claim = there.claim("t0", "g", client="c", wait="10s")
                arrived.append(time.perf_counter())
                if claim is None:
                    raise AssertionError("it did not come")
                there.ack(claim)

            waiting = threading.Thread(target=poll)
            waiting.start()
            time.sleep(0.2 + random.random())
            began = time.perf_counter()
            here.publish("t0", number)
            waiting.join()
            took.append(arrived[0] - began)
    took.sort()
    return {
        "p50_ms": round(percentile(took, 0.5) * 1000, 1),
        "worst_ms": round(took[-1] * 1000, 1),
    }


# One of two ends


def end(gracefully: bool, rate: int, dsn: str) -> Figures:
    """Two servers, of which one ends while messages fall due; whoever consumes asks the other."""
    total = rate * (_BEFORE + _AFTER)
    with several(dsn, 1) as (server,):
        _make_topics(server, 1, 1)
        first = datetime.now(UTC) + _LEAD
        with Tarry(server.url) as tarry:
            for begin in range(0, total, _PAGE):
                dues = [first + timedelta(seconds=number / rate) for number in range(begin, min(begin + _PAGE, total))]
                tarry.publish_many("t0", [{"body": due.timestamp(), "deliver_at": due} for due in dues])
    with several(dsn, 2) as servers:
        if datetime.now(UTC) + timedelta(seconds=1) > first:
            raise AssertionError("the servers have started so slowly that the load has begun")
        arrivals = Arrivals(servers[1].port, total, topic="t0")
        consuming = threading.Thread(target=trio.run, args=(_consume, arrivals))
        consuming.start()
        time.sleep(first.timestamp() + _BEFORE - time.time())
        say("one ends")
        ended_at = time.time()
        if gracefully:
            servers[0].stop()
        else:
            servers[0].kill()
        took = time.time() - ended_at
        consuming.join()
        servers[:] = servers[1:]
    sql = (
        "SELECT COUNT(*), COUNT(DISTINCT id), MIN(streamed_at - deliver_at), MAX(streamed_at - deliver_at) FROM message"
    )
    ((rows, ids, early, late),) = databases.ask(dsn, sql)
    received = list(arrivals.times())  # each once, or it raises
    if (rows, ids) != (total, total):
        raise AssertionError(f"{rows} messages of {ids} ids, of {total}")
    return {
        "messages": total,
        "lost": 0,
        "least_lateness_ms": int(early),
        "latest_in_queue_ms": int(late),
        "latest_received_ms": round(max(late for _, late in received)),
        "end_took_s": round(took, 2),
    }


async def _consume(arrivals: Arrivals) -> None:
    with trio.move_on_after(_PATIENCE):
        await arrivals.consume("c")


# Memory


def memory(many: int, pending: int, dsn: str) -> Figures:
    """What each holds of timers that were there before it came."""
    with tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder, several(dsn, 1) as servers:
        _make_topics(servers[0], 1, 1)
        empty = rss_of(servers[0].pid)
        publish_lines(servers[0].port, BODY + b',"delay":"1h"', pending, keyed=False, topic="t0")
        servers.pop().stop()
        for number in range(many):
            start_another(servers, Path(folder), dsn, f"new{number}")
        until_shared_out(servers[0], many, pending)
        with Tarry(servers[0].url) as tarry:
            timers = [one["timers"] for one in tarry.nodes()]
        rss = [rss_of(server.pid) for server in servers]
    return {
        "most_timers": max(timers),
        "most_mb": round(max(rss) / 1e6, 1),
        "timers": timers,
        "rss_mb": [round(one / 1e6, 1) for one in rss],
        "empty_mb": round(empty / 1e6, 1),
    }


if __name__ == "__main__":
    main()
