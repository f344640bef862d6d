"""Callers of one process who share requests, through a real server: faster together, and each for itself."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from support.server import client_of, start_server
from tarry.client import AsyncTarry, Tarry, TarryError
from tarry.service.demo.server_process import ServerProcess


def everything(tarry: Tarry, topic: str) -> Counter[Any]:
    """What a topic of one queue has."""
    found: Counter[Any] = Counter()
    offset = 0
    while (pulled := tarry.pull(topic, 0, offset, 1000)).messages:
        found.update(message.body for message in pulled.messages)
        offset = pulled.next_offset
    return found


def requests(server: ServerProcess) -> float:
    """Those with POST that the server has answered."""
    text = httpx.get(f"{server.url}/metrics").text
    lines = [line for line in text.splitlines() if line.startswith("tarry_http_requests_total") and '"POST"' in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_the_more_threads_the_fewer_requests(server: ServerProcess, tarry: Tarry) -> None:
    each = []
    for threads in (1, 20, 200):
        topic, before = f"of-{threads}", requests(server)
        tarry.put_topic(topic, queues=1)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(partial(tarry.publish, topic), range(1000)))
        each.append((requests(server) - before) / 1000)
        assert everything(tarry, topic) == Counter(range(1000))
    one, twenty, many = each
    assert one == 1
    assert many < twenty < one / 3


def caught(tarry: Tarry, topic: str, body: Any, **options: Any) -> tuple[Any, ...]:
    """What comes of a publish."""
    try:
        return (tarry.publish(topic, body, **options).state,)
    except TarryError as error:
        return type(error), str(error), error.status, error.errors, error.in_doubt, error.problem


def test_each_has_its_own_receipt_or_error(tarry: Tarry) -> None:
    tarry.put_topic("errors", queues=1)
    wrong: list[tuple[Any, dict[str, Any]]] = [
        ("queue", {"queue": 7}),
        ("x" * (300 << 10), {}),
        ("delay", {"delay": "20y"}),
        ("key", {"key": "k" * 300}),
        ("again", {"idempotency_key": "given"}),
    ]
    tarry.publish("errors", 0, idempotency_key="given")
    alone = [caught(tarry, "errors", body, **options) for body, options in wrong]
    assert [kind[0].__name__ for kind in alone] == [
        "BadRequest", "TooLarge", "BadRequest", "BadRequest", "IdempotencyConflict"
    ]  # fmt: skip
    right = range(1, 401)
    with ThreadPoolExecutor(60) as pool:
        fine = [pool.submit(tarry.publish, "errors", number) for number in right]
        bad = [pool.submit(caught, tarry, "errors", body, **options) for body, options in wrong * 20]
        fine += [pool.submit(tarry.publish, "errors", number) for number in (401, 402)]
    assert [one.result() for one in bad] == alone * 20
    ids = [one.result().id for one in fine]
    assert len(set(ids)) == 402
    assert everything(tarry, "errors") == Counter(range(403))
    bodies = {message.id: message.body for message in tarry.pull("errors", 0, 0, 1000).messages}
    assert [bodies[id_] for id_ in ids] == [*right, 401, 402], "the receipt is of its own message"


@pytest.mark.filterwarnings("ignore:Async generator 'httpx._content:ResourceWarning")  # of a request cut as it is sent
@pytest.mark.parametrize("kind", ["threads", "asyncio", "trio"])
@pytest.mark.cases(1)
def test_a_server_that_is_killed_loses_nothing_and_has_nothing_twice(tmp_path: Path, kind: str) -> None:
    """Each answer that was lost is asked for again, by its own idempotency key."""
    callers, each = 40, 25
    with start_server(tmp_path) as server, client_of(server) as watcher:
        watcher.put_topic("killed", queues=1)
        enough = threading.Semaphore(0)

        def kill() -> None:
            for rounds in range(1, 3):
                for _ in range(rounds * callers * each // 4):
                    enough.acquire()
                server.kill()
                server.start()

        killer = threading.Thread(target=kill)
        killer.start()
        bodies = [[f"{caller}-{number}" for number in range(each)] for caller in range(callers)]
        if kind == "threads":
            ids = _from_threads(server.url, bodies, enough)
        else:
            ids = anyio.run(_from_tasks, server.url, bodies, enough, backend=kind)
        killer.join()
        assert len(set(ids)) == callers * each
        assert everything(watcher, "killed") == Counter(body for some in bodies for body in some)


def _from_threads(url: str, bodies: list[list[str]], done: threading.Semaphore) -> list[str]:
    with Tarry(url, deadline=60) as tarry, ThreadPoolExecutor(len(bodies)) as pool:

        def publish(some: list[str]) -> list[str]:
            ids: list[str] = []
            for body in some:
                ids.append(tarry.publish("killed", body).id)
                done.release()
            return ids

        return [id_ for ids in pool.map(publish, bodies) for id_ in ids]


async def _from_tasks(url: str, bodies: list[list[str]], done: threading.Semaphore) -> list[str]:
    ids: list[str] = []

    async def publish(tarry: AsyncTarry, some: list[str]) -> None:
        for body in some:
            ids.append((await tarry.publish("killed", body)).id)
            done.release()

    async with AsyncTarry(url, deadline=60) as tarry, anyio.create_task_group() as tasks:
        for some in bodies:
            tasks.start_soon(publish, tarry, some)
    return ids
