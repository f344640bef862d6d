"""How long after kill -9 and a new start is the first due message handed out, with a million pending?

    python -m tarry.bench.restart --dsn mysql://root@127.0.0.1:3306/any [--pending 1000000] [--runs 5]

The pending messages of 200 bytes fall due over the next hours, by default all within the horizon, so that the server
loads all of them at the start. Each run publishes some messages that fall due during the outage, kills the server, lets
them fall due and starts the server again; a consumer tries to claim over HTTP from that moment on.

    first_s       from the start of the process to the first message at the consumer; the goal is 2 s
    all_s         until the consumer has every message that fell due during the outage
    recovered_s   how long the server says that it took to load the pending messages, while it served
"""

import json
import time
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import trio

from ..service.demo.server_process import ServerProcess
from ..store.catalogue import TopicDraft
from . import databases
from .lean_http import LeanHTTP, RefusedError
from .report import Figures, chosen, say, show, spread, summarize
from .subject import add_topic, fill, opened, served

_AWAY = 2.0
"""Seconds that the server is down; the messages of the outage fall due halfway through."""
_OVERDUE = 100
_RECOVERY_SECONDS = 120


def main() -> None:
    parser = databases.options("restart", __doc__, "sqlite", runs=5)
    parser.add_argument("--pending", type=int, default=1_000_000, help="messages that wait")
    parser.add_argument("--hours", type=float, default=2.5, help="over which they fall due; the horizon is 3")
    arguments = parser.parse_args()
    if arguments.pending < 0 or arguments.hours <= 0.5:
        parser.error("messages that fall due over more than half an hour")
    with databases.server(arguments.dsn) as dsn, databases.scratch(dsn) as scratch:
        settings = databases.durability(dsn)
        trio.run(schedule, scratch, arguments.pending, arguments.hours)
        found = measure(scratch, arguments.pending, arguments.runs)
    summarize(
        "restart",
        **chosen(arguments, "pending", "hours", "runs"),
        **settings,
        **{name: spread([run[name] for run in found], 2) for name in ("first_s", "all_s", "recovered_s")},
    )


async def schedule(dsn: str, pending: int, hours: float) -> None:
    """Fills the store with messages due from half an hour on, so that none falls due before the bench is over."""
    async with opened(dsn) as store:
        topic = await add_topic(store, TopicDraft("pending"))
        first, span = await store.now() + 1_800_000, round(hours * 3_600_000) - 1_800_000
        await fill(store, topic, pending, lambda number: first + number * span // pending)


def measure(dsn: str, pending: int, runs: int) -> list[Figures]:
    """Kills and restarts one server `runs` times."""
    found: list[Figures] = []
    with served(dsn) as server:
        for run in range(1, runs + 1):
            say(f"run {run} of {runs}: waiting until all is read back")
            wait_until_recovered(server, run)
            trio.run(publish_overdue, server.port)
            say(f"run {run} of {runs}: killed")
            server.kill()
            time.sleep(_AWAY)
            figures = trio.run(start_and_claim, server)
            say(f"run {run} of {runs}: waiting until all is read back")
            recovered = wait_until_recovered(server, run + 1)
            found.append({**figures, "recovered_s": recovered["took_ms"] / 1000, "entries": recovered["entries"]})
            show({"bench": "restart", "run": run, "pending": pending, **found[-1]})
    return found


def wait_until_recovered(server: ServerProcess, starts: int) -> dict[str, Any]:
    """Waits until all pending messages within the horizon are in the wheel; returns the server's log line about it."""
    deadline = time.monotonic() + _RECOVERY_SECONDS
    while time.monotonic() < deadline:
        lines = [line for line in server.log.read_text().splitlines() if '"recovered"' in line]
        if len(lines) >= starts:
            return cast("dict[str, Any]", json.loads(lines[-1]))
        time.sleep(0.02)
    raise RuntimeError(f"the server had not recovered after {_RECOVERY_SECONDS} s")


async def publish_overdue(port: int) -> None:
    """Publishes messages that fall due while the server is down."""
    due = datetime.fromtimestamp(time.time() + _AWAY / 2, UTC).isoformat(timespec="milliseconds")
    page = [{"body": number, "deliver_at": due} for number in range(_OVERDUE)]
    async with LeanHTTP(port) as http:
        await http.post("/v1/topics/outage/messages", msgspec.json.encode({"messages": page}))


async def start_and_claim(server: ServerProcess) -> Figures:
    """Starts the server while a consumer already tries to claim."""
    times: list[float] = []
    began = time.perf_counter()

    async def consume() -> None:
        held = 0
        while held < _OVERDUE:
            if time.perf_counter() > began + _RECOVERY_SECONDS:
                raise AssertionError(f"{held} of {_OVERDUE} came within {_RECOVERY_SECONDS} s")
            try:
                came = await claim_some(server.port)
            except (OSError, RefusedError, trio.BrokenResourceError):
                await trio.sleep(0.002)  # not listening yet, or not ready
                continue
            if came:
                held += came
                times.append(time.perf_counter() - began)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        await trio.to_thread.run_sync(server.start)
        ready = time.perf_counter() - began
    return {"first_s": round(times[0], 3), "all_s": round(times[-1], 3), "ready_s": round(ready, 3)}


async def claim_some(port: int) -> int:
    """Makes one claim, acknowledges it and returns how many messages it got."""
    wish = msgspec.json.encode({"client": "bench", "max": _OVERDUE, "wait": "5s"})
    async with LeanHTTP(port) as http:
        answer = msgspec.json.decode(await http.post("/v1/topics/outage/groups/bench/claim", wish))
        if answer["claim"] is None:
            return 0
        await http.post(f"/v1/claims/{answer['claim']}/ack", b"{}")
        return len(answer["messages"])


if __name__ == "__main__":
    main()
