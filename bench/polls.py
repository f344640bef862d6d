"""What do idle long polls cost the database?

    python -m tarry.bench.polls --dsn mariadb [--polls 1000] [--seconds 30]

So many claims wait at one engine, as long polls do, and nothing is published. `statements_per_s` is what the server
itself counted (`Questions`), all of the service's own rounds included; the server should have nothing else to do.
HTTP has no part in it: a poll costs the front door what it costs, and the database nothing.
"""

import argparse
import time

import trio

from ..service.engine import Engine
from ..service.metrics import Metrics
from ..service.settings import Settings
from ..store.opening import open_backend
from ..store.store import Store
from . import databases
from .report import Figures, say, show

_SETTLED = 5
"""Seconds until what a start asks has been asked, and the looks have become rare."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tarry.bench.polls", description=(__doc__ or "").splitlines()[0])
    databases.add_dsn(parser)
    parser.add_argument("--polls", type=int, default=1000, help="that wait (default: 1000)")
    parser.add_argument("--groups", type=int, default=1, help="among which they are shared (default: 1)")
    parser.add_argument("--seconds", type=float, default=30, help="of counting (default: 30)")
    arguments = parser.parse_args()
    if not 1 <= arguments.groups <= arguments.polls or arguments.seconds <= 0:
        parser.error("at least one poll to a group, and some time")
    if arguments.dsn.startswith("sqlite"):
        parser.error("SQLite does not count statements: the question is one of MySQL and MariaDB")
    with databases.server(arguments.dsn) as dsn, databases.scratch(dsn) as scratch:
        show(trio.run(measure, scratch, arguments.polls, arguments.groups, arguments.seconds))


async def measure(dsn: str, polls: int, groups: int, seconds: float) -> Figures:
    """Counts while they wait."""
    settings = Settings(dsn=dsn)
    backend = await open_backend(dsn)
    try:
        engine = Engine(Store(backend), settings, Metrics())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(engine.run)
            await engine.ready.wait()
            topic = await engine.topic("idle")
            names = [await engine.group(topic, f"group-{number}") for number in range(groups)]

            async def poll(number: int) -> None:
                while True:
                    if await engine.claim(names[number % groups], f"client-{number}", 1, 30_000, 60_000):
                        raise AssertionError("nothing was published, and something came")

            for number in range(polls):
                nursery.start_soon(poll, number)
            say(f"{polls} polls begin to wait")
            await trio.sleep(2 * _SETTLED)
            before, began = _asked(dsn), time.monotonic()
            say(f"counting for {seconds:g} s")
            await trio.sleep(seconds)
            asked, took = _asked(dsn) - before, time.monotonic() - began
            nursery.cancel_scope.cancel()
        return {
            "bench": "polls",
            "polls": polls,
            "groups": groups,
            "seconds": seconds,
            # Each look at the counter logs in and sets the session up: those statements are not the service's.
            "statements_per_s": round((asked - _OWN) / took, 2),
        }
    finally:
        await backend.aclose()


_OWN = 3


def _asked(dsn: str) -> int:
    ((_, count),) = databases.ask(dsn, "SHOW GLOBAL STATUS LIKE 'Questions'")
    return int(count)


if __name__ == "__main__":
    main()
