"""The row `group` of the campaign: from when on it is measured, what counts as stuck, and the partition end to end."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import trio
import trio.testing

from tarry.bench.campaign.crew import Crew
from tarry.bench.campaign.database import Server
from tarry.bench.campaign.group import Group, measured, nothing, rest
from tarry.bench.campaign.journal import Journal
from tarry.bench.campaign.networks import Network
from tarry.bench.campaign.node import Node
from tarry.bench.campaign.stage import Order, Stage


def stage_of(journal: Journal) -> Stage:
    order = Order(nodes=1, count=1, seed=1, seconds=60, rate=1, drain_seconds=1)
    return Stage(order, Server(""), None, [], [], Crew(journal, [], 1, 1), journal, 0, {})


async def publish_until_back(stage: Stage, group: Group) -> None:
    while not stage.ups:
        await trio.lowlevel.checkpoint()
        if group.chosen.is_set():
            stage.journal.write("publish", "ok")


async def test_the_service_is_back_while_the_fault_goes_on(tmp_path: Path) -> None:
    """It is measured from the choice of a primary, not from the end of the cut."""
    group, over = Group([]), threading.Event()

    def fault() -> Callable[[], None]:
        trio.from_thread.run_sync(group.chosen.set)
        assert over.wait(10)
        return nothing

    with Journal(tmp_path / "history.jsonl") as journal, trio.fail_after(10):
        stage = stage_of(journal)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(measured, stage, group, fault)
            await publish_until_back(stage, group)
            assert not over.is_set()
            over.set()
        assert not journal.counts["fault", "fail"]


async def test_what_does_not_happen_in_time_is_a_violation(tmp_path: Path) -> None:
    def fault() -> Callable[[], None]:
        raise TimeoutError("n0 has no majority, and does not say so")

    with Journal(tmp_path / "history.jsonl") as journal, trio.fail_after(10):
        stage, group = stage_of(journal), Group([])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(measured, stage, group, fault)
            await publish_until_back(stage, group)
        assert journal.counts["fault", "fail"] == 1


async def test_an_interrupt_ends_what_a_fault_waits_for() -> None:
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, rest, 60)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()


async def test_a_server_says_whether_it_is_ready_or_nothing(tmp_path: Path) -> None:
    node = Node("n0", tmp_path / "n0", "", {}, "", Network().place("callers"))
    assert node.readiness == 0
    statuses = [200, 503]

    async def answer(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            if await stream.receive_some():
                await stream.send_all(b"HTTP/1.1 %d Told\r\ncontent-length: 0\r\n\r\n" % statuses[0])

    async with trio.open_nursery() as serving:
        listen = partial(trio.open_tcp_listeners, node.port, host=node.host)
        serving.start_soon(trio.serve_listeners, answer, await listen())
        for status in tuple(statuses):
            assert await trio.to_thread.run_sync(lambda: node.readiness) == status
            statuses.pop(0)
        serving.cancel_scope.cancel()
