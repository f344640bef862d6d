"""One worker for many topics, on each client: few threads, an end at once, nobody starved, nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tarry.client import Tarry
from tarry.service.demo.server_process import ServerProcess, python_path

PROGRAM = """
import sys, threading
from tarry.client import AsyncTarry, Tarry

kind, url, group, *topics = sys.argv[1:]

def handle(message):
    print(f"{message.topic} {threading.active_count()}\\n", end="", flush=True)  # threads write in between

async def wait(message):
    handle(message)

terms = {"group": group, "workers": 8, "pass_message": True, "start": "earliest"}
if kind == "threads":
    with Tarry(url) as tarry:
        tarry.run([(topic, handle) for topic in topics], **terms)
else:
    async def main():
        async with AsyncTarry(url) as tarry:
            await tarry.run([(topic, wait) for topic in topics], **terms)

    import anyio
    anyio.run(main, backend=kind)
"""


def life_of_a_worker(
    server: ServerProcess, kind: str, group: str, topics: list[str], folder: Path
) -> tuple[set[str], int, float]:
    """Which topics it has handled, its threads, and the seconds from SIGTERM to its end."""
    command = [sys.executable, "-c", PROGRAM, kind, server.url, group, *topics]
    environment = os.environ | python_path() | {"TARRY_TEST_FORK": "1"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        said = [worker.stdout.readline().split() for _ in topics]
        worker.send_signal(signal.SIGTERM)
        since = time.monotonic()
        assert worker.wait(30) == 0
        return {topic for topic, _ in said}, max(int(threads) for _, threads in said), time.monotonic() - since


@pytest.mark.parametrize("kind", ["threads", "asyncio", "trio"])
def test_ten_topics_take_few_threads_and_end_without_waiting_for_their_polls(
    server: ServerProcess, tarry: Tarry, kind: str, tmp_path: Path
) -> None:
    ten = [f"work-{kind}-{number}" for number in range(10)]
    for topic in ten:
        tarry.publish(topic, "work")
    topics, threads, took = life_of_a_worker(server, kind, "g", ten, tmp_path)
    assert topics == set(ten)
    assert threads <= (15 if kind == "threads" else 1)
    assert took < 10, "each poll of ten topics lasts 20 s"
    # It has said goodbye: nothing has to wait until it is found dead.
    assert not [one for one in tarry.clients() if one["client"].find(f"-{os.getpid()}-") < 0 and one["alive"]]
