"""What a process hears from its supervisor, and from the others."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from tarry.service.processes.board import Board, Share
from tarry.service.processes.process import Asking, Process


@contextmanager
def processes(many: int, orders: int = -1) -> Iterator[list[Process]]:
    """All of them in this one; `orders` is where they are read from."""
    board = Board(many)
    asking = [Asking(*socket.socketpair(type=socket.SOCK_DGRAM)) for _ in range(many)]
    for one in asking:
        one.to.setblocking(False)
    yield [Process(number, [], Share(board, number), orders, asking, None) for number in range(1, many + 1)]
    for one in asking:
        one.to.close()
        one.at.close()


async def test_orders_are_the_signals_handed_on() -> None:
    reads, writes = os.pipe()
    with processes(1, reads) as (process,):
        os.write(writes, bytes([signal.SIGHUP, signal.SIGTERM]))
        orders = process.orders()
        assert [await anext(orders), await anext(orders)] == [signal.SIGHUP, signal.SIGTERM]
        await orders.aclose()
    os.close(writes)


@pytest.mark.parametrize("loaded_first", [True, False])
def test_a_process_that_serves_and_has_its_timers_is_loaded(loaded_first: bool) -> None:
    """In whichever order: of a store with little in it the timers are there before it can serve."""
    board = Board(1)
    process = Process(1, [], Share(board, 1), 0, [], None)
    steps = (process.ready, process.begin) if loaded_first else (process.begin, process.ready)
    steps[0]()
    assert not board.is_loaded(1)
    steps[1]()
    assert board.is_loaded(1)
    process.end()
    assert not board.is_loaded(1)


def test_a_process_ends_with_its_pipe(tmp_path: Path) -> None:
    """Where the kernel does not see to it, too."""
    reads, writes = os.pipe()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-B", "-c", _WAITS, str(reads)],
        os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / ".tree")},
        file_actions=[(os.POSIX_SPAWN_DUP2, reads, reads), (os.POSIX_SPAWN_CLOSE, writes)],
    )
    os.close(reads)
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    os.close(writes)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


_WAITS = """
import sys, trio
from tarry.service.processes.board import Board, Share
from tarry.service.processes.process import Process

async def main():
    async for order in Process(1, [], Share(Board(1), 1), int(sys.argv[1]), [], None).orders():
        print(order)

trio.run(main)
"""


async def test_whoever_is_asked_tells_of_all_who_answer(autojump_clock: trio.abc.Clock) -> None:
    with processes(3) as all_:
        for process in all_:
            process.begin()
        one, two, _ = all_
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.answer, lambda: b"# HELP a A.\n# TYPE a gauge\na 1.0\n")
            nursery.start_soon(two.answer, lambda: b"# HELP a A.\n# TYPE a gauge\na 2.0\n")
            text = await one.exposition(lambda: b"# HELP a A.\n# TYPE a gauge\na 1.0\n")
            nursery.cancel_scope.cancel()
    lines = text.decode().splitlines()
    assert [line for line in lines if line.startswith("a{")] == ['a{process="1"} 1.0', 'a{process="2"} 2.0']
    up = [line for line in lines if line.startswith("tarry_process_up")]
    assert up == [f'tarry_process_up{{process="{number}"}} {value}' for number, value in ((1, 1), (2, 1), (3, 0))]


async def test_one_that_never_answers_is_asked_in_vain_however_often(autojump_clock: trio.abc.Clock) -> None:
    with processes(2) as (one, two):
        two.begin()
        for _ in range(600):  # more than the kernel keeps for it
            text = await one.exposition(lambda: b"")
            assert b'tarry_process_up{process="2"} 0' in text
