"""Deaths of several at once, and of parts of a server: all nodes at the same moment, and single processes of one that
has several (`--processes`)."""

import os
import signal
import time
from contextlib import suppress
from random import Random

import trio

from ..usage import children_of
from .crew import until
from .faults import PATIENCE, moment
from .node import Node
from .stage import Stage

CHILDREN = 2
"""Processes of a node."""


async def all_at_once(stage: Stage) -> None:
    """kill -9 of all nodes at the same moment, and their start: nobody was left who knew anything."""
    random = stage.crew.random("all")
    while stage.wanted:
        await moment(stage, random)
        if not stage.begin("kill of all"):
            break
        down = time.monotonic()
        for node in stage.nodes:
            os.kill(node.process.pid, signal.SIGKILL)
        async with trio.open_nursery() as nursery:
            for node in stage.nodes:
                node.kill()  # reaps it
                nursery.start_soon(node.start)
        await _served_again(stage, down)
        stage.end("kill of all")


async def children(stage: Stage) -> None:
    """kill -9 of one process of a node, of both, or, where fewer are left, of the one that looks after them."""
    random = stage.crew.random("children")
    while stage.wanted:
        await moment(stage, random)
        if not await _child_killed(stage, random, random.choice(stage.nodes)):
            break


async def _child_killed(stage: Stage, random: Random, node: Node) -> bool:
    """Whether there was still a fault to be done."""
    alive = children_of(node.process.pid)
    whole = len(alive) < CHILDREN  # it rests for longer and longer before it starts one again
    dying = [node.process.pid] if whole else random.sample(alive, random.choice((1, 1, CHILDREN)))
    if not stage.begin("kill of a supervisor" if whole else f"kill of {len(dying)} of {CHILDREN} processes", node.name):
        return False
    down = time.monotonic()
    for pid in dying:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if whole:
        node.kill()  # reaps it
        await node.start()
    await until(lambda: len(set(children_of(node.process.pid)) - set(dying)) == CHILDREN, PATIENCE)
    await _served_again(stage, down)
    stage.end("kill of processes", node.name)
    return True


async def _served_again(stage: Stage, down: float) -> None:
    if not await stage.journal.reached("publish:ok", 1, 3 * PATIENCE):
        stage.stuck("the service did not come back in time")
    stage.ups.append((time.monotonic() - down) * 1000)
