"""A program that forks: parent and child publish at the same time through a client from before the fork.

    python tests/support/forked.py URL threads|asyncio|trio COUNT

Prints a line of JSON for each process, the child's first: [[id, body], ...], each receipt with its message's body.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import trio

from tarry.client import AsyncTarry, Tarry

Publish = Callable[[list[str]], list[list[Any]]]


def threads(url: str) -> Publish:
    tarry = Tarry(url)

    def publish(bodies: list[str]) -> list[list[Any]]:
        return [[tarry.publish("forked", body).id, body] for body in bodies]

    return publish


def tasks(url: str, run: Callable[..., Any]) -> Publish:
    tarry = AsyncTarry(url)

    async def publish(bodies: list[str]) -> list[list[Any]]:
        return [[(await tarry.publish("forked", body)).id, body] for body in bodies]

    return lambda bodies: run(publish, bodies)


def main() -> None:
    url, kind, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

    def run_asyncio(work: Callable[..., Any], *args: Any) -> Any:
        return asyncio.run(work(*args))

    publish = threads(url) if kind == "threads" else tasks(url, run_asyncio if kind == "asyncio" else trio.run)
    # Opens a connection, which both inherit.
    publish(["before"])
    here, there = os.pipe()
    child = os.fork()
    # Each waits for the other's first step, so that they publish together.
    if child == 0:
        os.write(there, b".")
    else:
        os.read(here, 1)
    who = "child" if child == 0 else "parent"
    # The asyncio loop has ended with its connections; on trio and with threads the parent keeps its own.
    landed = publish([f"{who} {n}" for n in range(count)]) if child == 0 or kind != "asyncio" else []
    status = 0 if child == 0 else os.waitpid(child, 0)[1]
    print(json.dumps(landed), flush=True)
    if child == 0:
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
