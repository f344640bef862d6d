"""One message that kills whoever handles it, or holds its interpreter or event loop for longer than a client lives: it
alone becomes a dead letter, and what was prefetched beside it is handled. Real processes, which a supervisor starts
again, with threads, on asyncio and on trio."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from support.worker_process import wait_for
from tarry.client import Tarry
from tarry.service.demo.server_process import ServerProcess, python_path

MESSAGES = 60
DELIVERIES = 4
_WORKER = """
import ctypes, os, sys, time
import anyio
from tarry.client import AsyncTarry, Tarry

url, topic, flavour, form = sys.argv[1:]
terms = {"lease": "1s", "wait": "200ms"}

def handle(body):
    if body == "abort":
        os.abort()
    if body == "hold" and flavour == "threads":
        ctypes.PyDLL(None).usleep(1_700_000)  # with the interpreter's lock
    elif body == "hold":
        time.sleep(1.7)

def threads():
    with Tarry(url) as tarry:
        if form == "run":
            tarry.run(topic, "g", handle, workers=4, **terms)
        for message in tarry.consume(topic, "g", **terms):
            with message:
                handle(message.body)

async def tasks():
    async def work(body):
        handle(body)

    async with AsyncTarry(url) as tarry:
        if form == "run":
            await tarry.run(topic, "g", work, workers=4, **terms)
        async for message in tarry.consume(topic, "g", **terms):
            async with message:
                await work(message.body)

threads() if flavour == "threads" else anyio.run(tasks, backend=flavour)
"""
LANES = [("threads", "run"), ("threads", "consume"), ("asyncio", "run"), ("trio", "consume")]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return {"TARRY_LADDER": ",".join(["50ms"] * (DELIVERIES - 1)), "TARRY_CLIENT_TIMEOUT": "1s"}


def supervise(server: ServerProcess, tarry: Tarry, killer: str, lane: tuple[str, str]) -> dict[str, Any]:
    """Starts a worker again for as long as it dies and something is left; how its group stands then."""
    flavour, form = lane
    topic = f"{killer}-{flavour}-{form}"
    tarry.publish_many(topic, [{"body": killer if number == 30 else number} for number in range(MESSAGES)])
    tarry.put_group(topic, "g")

    def settled() -> dict[str, Any] | None:
        state = tarry.group(topic, "g")
        return state if state["acked"] + state["dead"] == MESSAGES else None

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _WORKER, server.url, topic, flavour, form]
        return subprocess.Popen(
            command, env=os.environ | python_path() | {"TARRY_TEST_FORK": "1"}, stderr=subprocess.DEVNULL
        )

    worker = start()
    deaths = 0
    try:

        def over() -> bool:
            nonlocal worker, deaths
            if settled() is not None:
                return True
            if worker.poll() is not None:
                deaths += 1
                worker = start()
            return False

        wait_for(over, f"all of {topic} is settled, after {deaths} deaths: {tarry.group(topic, 'g')}", 120)
    finally:
        worker.kill()
        worker.wait()
    state = settled()
    assert state is not None
    return state | {"letters": [letter for page in [tarry.dead(topic, "g")] for letter in page]}


@pytest.mark.parametrize("killer", ["abort", "hold"])
@pytest.mark.cases(1)
def test_it_takes_no_neighbour_along(server: ServerProcess, tarry: Tarry, killer: str) -> None:
    with ThreadPoolExecutor(len(LANES)) as lanes:
        ends = list(lanes.map(partial(supervise, server, tarry, killer), LANES))
    for lane, end in zip(LANES, ends, strict=True):
        assert (end["acked"], end["dead"]) == (MESSAGES - 1, 1), lane
        (letter,) = end["letters"]
        assert letter.message.body == killer
        assert [attempt["reason"] for attempt in letter.attempts] == ["lease lost"] * DELIVERIES, lane
