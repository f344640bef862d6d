"""How fast is Tarry for a user, through real sockets, the real server and the real client?

    python -m tarry.bench.front --dsn sqlite
    python -m tarry.bench.front --dsn mysql --runs 5 --seconds 5
    python -m tarry.bench.front --only publish run

Each subject has its own server and its own empty database. `server_cpu_us` is the server's processor time for one
request, or for one message where a request has many; the clients, which share the machine, are not counted in it. The
baseline, in the same run, is the same app behind Hypercorn. The number in a subject's name is how many connections,
threads or tasks work at once; in `claim` it is the messages to a claim, with 8 consumers. `schedule` publishes for
tomorrow. `timer` sets the timer of one of `--keys` keys again for tomorrow; every key has one already. `lines` sends
five times `--messages` messages in one request.
"""

import json
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import trio

from ..client import AsyncTarry, Tarry
from ..store.catalogue import TopicDraft
from ..store.records import Draft
from ..store.timers.keyed import Wish
from . import databases
from .closed_loop import in_tasks, in_threads
from .line_load import publish_lines
from .raw_load import Claims, Publishes, Script, drive, request
from .report import Figures, chosen, column, ratios, spreads, summarize
from .subject import BODY, add_topic, now, opened, served
from .usage import cpu_of

_MESSAGES = "/v1/topics/orders/messages"
_LATER = b'{"delay":"24h","body":' + BODY + b"}"
_DAY = 24 * 3_600_000
_PUBLISH = request("POST", _MESSAGES, b'{"body":' + BODY + b"}")
_SCHEDULE = request("POST", _MESSAGES, _LATER)
_CONSUMERS = 8
_WARM_UP = 1000
"""Messages published before the measurement starts."""
_PAGE = 400
"""Timers to a transaction."""
_BEHIND = "hypercorn_"
_HYPERCORN = ("tarry.bench.behind_hypercorn",)
_BODY = json.loads(BODY)


def main() -> None:
    parser = databases.options("front", __doc__, default="sqlite", runs=5)
    parser.add_argument("--seconds", type=databases.seconds, default=3, help="of each measurement")
    parser.add_argument("--at-once", type=databases.count, nargs="+", default=[1, 20, 200], help="connections, threads")
    parser.add_argument("--messages", type=databases.count, default=20_000, help="that claims and run find waiting")
    parser.add_argument("--keys", type=databases.count, default=100_000, help="that have a timer")
    parser.add_argument("--only", nargs="+", help="subjects whose names begin so")
    arguments = parser.parse_args()
    with databases.server(arguments.dsn) as dsn:
        contestants = {
            name: measure
            for name, measure in contestants_on(
                arguments.at_once, arguments.seconds, arguments.messages, arguments.keys
            ).items()
            if not arguments.only or name.startswith(tuple(arguments.only))
        }
        if not contestants:
            parser.error("no subject has such a name")
        settings = databases.durability(dsn)
        runs = databases.alternate(dsn, "front", arguments.runs, contestants)
        rates = column(runs, "per_s")
        summarize(
            "front",
            **chosen(arguments, "seconds", "runs"),
            **settings,
            per_s=spreads(rates),
            server_cpu_us=spreads(column(runs, "server_cpu_us"), 1),
            p50_ms=spreads(column(runs, "p50_ms"), 2),
            p99_ms=spreads(column(runs, "p99_ms"), 2),
            times_hypercorn={
                name: ratios(rates, name, _BEHIND + name) for name in contestants if _BEHIND + name in contestants
            },
        )


def contestants_on(at_once: list[int], seconds: float, messages: int, keys: int) -> dict[str, Callable[[str], Figures]]:
    """The subjects by name; each is a function that measures it on an empty database."""
    found: dict[str, Callable[[str], Figures]] = {}
    for number in at_once:
        publishing, scheduling = (partial(Publishes().publisher, data) for data in (_PUBLISH, _SCHEDULE))
        behind = partial(served, program=_HYPERCORN)
        found[f"publish_{number}"] = partial(over_sockets, publishing, number, seconds, served)
        found[f"{_BEHIND}publish_{number}"] = partial(over_sockets, publishing, number, seconds, behind)
        found[f"schedule_{number}"] = partial(over_sockets, scheduling, number, seconds, served)
        found[f"timer_{number}"] = partial(timers, keys, number, seconds)
    for size in (1, 10, 100):
        found[f"claim_{size}"] = partial(claimed, size, seconds, messages)
    for number in at_once:
        found[f"threads_{number}"] = partial(from_threads, number, seconds)
        found[f"tasks_{number}"] = partial(from_tasks, number, seconds)
    found["lines"] = partial(lines, 5 * messages, False)
    found["lines_keyed"] = partial(lines, 5 * messages, True)
    found["run"] = partial(consumed, messages)
    return found


def over_sockets(
    script: Callable[[], Script], connections: int, seconds: float, start: Callable[[str], Any], dsn: str
) -> Figures:
    """Sends the requests of a script on each of the connections."""
    with start(dsn) as server:
        scripts = [(server.port, script()) for _ in range(connections)]
        return drive(scripts, seconds, lambda: cpu_of(server.pid))


def timers(keys: int, connections: int, seconds: float, dsn: str) -> Figures:
    """Sets the timer of a random key again and again; every key has a timer from the start."""

    async def fill() -> None:
        async with opened(dsn) as store:
            topic = await add_topic(store, TopicDraft("orders"))
            draft = Draft(topic=topic, queue=topic.queues[0], body=BODY, deliver_at=now() + _DAY)
            for begin in range(0, keys, _PAGE):
                some = range(begin, min(begin + _PAGE, keys))
                await store.set_timers([Wish(topic, f"key-{number}", draft) for number in some], now())

    def sets() -> Script:
        while True:
            yield request("PUT", f"/v1/topics/orders/timers/key-{random.randrange(keys)}", _LATER)  # it spreads keys

    trio.run(fill)
    figures = over_sockets(sets, connections, seconds, served, dsn)
    databases.expect_rows(dsn, "delay", keys)
    return figures


def lines(messages: int, keyed: bool, dsn: str) -> Figures:
    """Publishes messages as lines of one request, each with an idempotency key if `keyed`; times the whole request."""
    with served(dsn) as server:
        publish_lines(server.port, BODY, _WARM_UP, keyed=False)
        return of_the_whole(messages, server.pid, lambda: publish_lines(server.port, BODY, messages, keyed=keyed))


def claimed(size: int, seconds: float, messages: int, dsn: str) -> Figures:
    """Claims `size` messages at a time and acknowledges them; the figures count messages."""
    claims = Claims(size)
    with served(dsn) as server:
        publish(server.url, min(messages, size * 20_000))
        scripts = [(server.port, claims.consumer(number, "orders")) for number in range(_CONSUMERS)]
        return claims.drive(scripts, seconds, lambda: cpu_of(server.pid))


def from_threads(number: int, seconds: float, dsn: str) -> Figures:
    """Calls `Tarry.publish` from `number` threads of this process."""
    with served(dsn) as server, Tarry(server.url) as tarry:
        before = cpu_of(server.pid)
        figures = in_threads([lambda: tarry.publish("orders", _BODY)] * number, seconds)
        return _with_server(figures, cpu_of(server.pid) - before)


def from_tasks(number: int, seconds: float, dsn: str) -> Figures:
    """Calls `AsyncTarry.publish` from `number` trio tasks."""

    async def measure(url: str) -> Figures:
        async with AsyncTarry(url) as tarry:
            return await in_tasks([lambda: tarry.publish("orders", _BODY)] * number, seconds)

    with served(dsn) as server:
        before = cpu_of(server.pid)
        figures = trio.run(measure, server.url)
        return _with_server(figures, cpu_of(server.pid) - before)


def _with_server(figures: Figures, used: float) -> Figures:
    client_cpu = figures.pop("cpu_us")
    return figures | {"server_cpu_us": round(used / figures["answered"] * 1e6, 1), "client_cpu_us": client_cpu}


def consumed(messages: int, dsn: str) -> Figures:
    """Runs `Tarry.run` with a handler that does nothing until every waiting message is handled; times the whole.

    The end of `run` does not count: it waits for the poll under way, which takes 2 s however many messages there were.
    """
    left = messages
    ended = 0.0
    stop, counting = threading.Event(), threading.Lock()

    def handle(body: object) -> None:
        nonlocal left, ended
        with counting:
            left -= 1
            if not left:
                ended = time.perf_counter()
                stop.set()

    def run() -> float:
        tarry.run("orders", "g", handle, stop=stop)
        return ended

    with served(dsn) as server, Tarry(server.url) as tarry:
        publish(server.url, messages)
        return of_the_whole(messages, server.pid, run)


def of_the_whole(messages: int, pid: int, work: Callable[[], float | None]) -> Figures:
    """Does `work` on so many messages and returns its figures, whose times are of the whole; `pid` is the server's.

    `work` may return the `time.perf_counter` at which it was done.
    """
    before, began, own = cpu_of(pid), time.perf_counter(), time.process_time()
    took = (work() or time.perf_counter()) - began
    return {
        "per_s": round(messages / took),
        "server_cpu_us": round((cpu_of(pid) - before) / messages * 1e6, 1),
        "client_cpu_us": round((time.process_time() - own) / messages * 1e6, 1),
        "p50_ms": round(took * 1000, 2),
        "p99_ms": round(took * 1000, 2),
    }


def publish(url: str, messages: int) -> None:
    """Publishes messages to `orders`, after creating the group `g` that starts before them."""
    with Tarry(url) as tarry:
        httpx.put(f"{url}/v1/topics/orders", json={}).raise_for_status()
        httpx.put(f"{url}/v1/topics/orders/groups/g", json={"from": "earliest"}).raise_for_status()
        tarry.publish_many("orders", [{"body": _BODY}] * messages)


if __name__ == "__main__":
    main()
