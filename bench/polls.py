"""What do idle long polls cost the database, and is each of very many answered in time?

    python -m tarry.bench.polls --dsn mariadb [--polls 1000] [--seconds 30]
    python -m tarry.bench.polls --dsn mariadb --http --polls 10000 [--seconds 30]

--polls claims wait at one node, as long polls do, and nothing is published. `statements_per_s` is the database server's
own count (`Questions`), which includes the service's periodic work; the database server should have nothing else to do.
HTTP is not involved.

With `--http` the polls go to a real server, all at once and each over its own connection, and wait for `--seconds`:

    answered, refused, lost   polls that got an empty answer; 503 with Retry-After; no answer a minute after their time
    late_s                    from the end of a poll's wait to its answer: the median, the 99th percentile, the maximum
"""

import time
from contextlib import suppress

import httpx
import msgspec
import trio

from ..service.making import begin
from ..service.metrics import Metrics
from ..service.settings import Settings
from ..store.records import ClaimRequest
from . import databases
from .lean_http import LeanHTTP, RefusedError
from .report import Figures, chosen, percentile, say, show
from .subject import opened, served

_PATIENCE = 60
"""Seconds after which a poll over HTTP counts as lost."""
_SETTLED = 5
"""Seconds until the queries of the start are over and the node polls the database only rarely."""


def main() -> None:
    parser = databases.options("polls", __doc__)
    parser.add_argument("--polls", type=databases.count, default=1000, help="that wait")
    parser.add_argument("--groups", type=databases.count, default=1, help="among which they are shared")
    parser.add_argument("--seconds", type=databases.seconds, default=30, help="of counting, or of a poll over HTTP")
    parser.add_argument("--http", action="store_true", help="over HTTP, each poll once")
    arguments = parser.parse_args()
    if arguments.dsn.startswith("sqlite") and not arguments.http:
        parser.error("SQLite does not count statements: the question is one of MySQL and MariaDB")
    asked = chosen(arguments, "polls", "groups", "seconds", "http")
    with databases.server(arguments.dsn) as dsn, databases.scratch(dsn) as scratch:
        how = (scratch, arguments.polls, arguments.groups, arguments.seconds)
        show({"bench": "polls", **asked, **(over_http(*how) if arguments.http else trio.run(measure, *how))})


async def measure(dsn: str, polls: int, groups: int, seconds: float) -> Figures:
    """Counts the database's statements while the polls wait."""
    async with opened(dsn) as store:
        server = begin(store.backend, Settings(dsn=dsn), Metrics())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            await server.ready.wait()
            node = server.node
            topic = await node.directory.topic("idle")
            names = [await node.directory.group(topic, f"group-{number}") for number in range(groups)]

            async def poll(number: int) -> None:
                while True:
                    request = ClaimRequest(f"client-{number}", 1, 60_000)
                    async with node.liveness.polling(request.client):
                        granted = await node.groups.claim(names[number % groups], request, 30_000)
                    if granted is not None:
                        raise AssertionError("nothing was published, and something came")

            for number in range(polls):
                nursery.start_soon(poll, number)
            say(f"{polls} polls begin to wait")
            await trio.sleep(2 * _SETTLED)
            before, began = databases.asked(dsn), time.monotonic()
            say(f"counting for {seconds:g} s")
            await trio.sleep(seconds)
            asked, took = databases.asked(dsn) - databases.LOOK - before, time.monotonic() - began
            nursery.cancel_scope.cancel()
        return {"statements_per_s": round(asked / took, 2)}


def over_http(dsn: str, polls: int, groups: int, seconds: float) -> Figures:
    """Sends one wave of polls to its own server."""
    with served(dsn) as server:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            for number in range(groups):
                client.put(f"/v1/topics/idle/groups/group-{number}", json={}).raise_for_status()
        wave = Wave(server.port, groups, seconds)
        trio.run(wave.run, polls)
    late = sorted(wave.late)
    return {
        "answered": len(late),
        "refused": wave.refused,
        "lost": polls - len(late) - wave.refused,
        "late_s": [round(percentile(late, share), 2) for share in (0.5, 0.99, 1)] if late else None,
    }


class Wave:
    """Polls that begin at the same time, each over its own connection."""

    def __init__(self, port: int, groups: int, seconds: float) -> None:
        self._port = port
        self._groups = groups
        self._seconds = seconds
        self.late: list[float] = []
        self.refused = 0

    async def run(self, polls: int) -> None:
        """Runs until every poll is answered, or until a minute after the last answer was due."""
        with trio.move_on_after(self._seconds + _PATIENCE):
            async with trio.open_nursery() as nursery:
                for number in range(polls):
                    nursery.start_soon(self._poll, number)

    async def _poll(self, number: int) -> None:
        path = f"/v1/topics/idle/groups/group-{number % self._groups}/claim"
        body = msgspec.json.encode({"client": f"client-{number}", "wait": round(self._seconds * 1000)})
        with suppress(OSError, trio.BrokenResourceError):
            async with LeanHTTP(self._port) as http:
                await http.open()
                asked = time.perf_counter()
                try:
                    answer = await http.post(path, body)
                except RefusedError as error:
                    if error.status != 503 or b"retry-after" not in error.head:
                        raise
                    self.refused += 1
                else:
                    if msgspec.json.decode(answer)["messages"]:
                        raise AssertionError("nothing was published, and something came")
                    self.late.append(time.perf_counter() - asked - self._seconds)


if __name__ == "__main__":
    main()
