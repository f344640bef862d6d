"""Faults that kill all nodes at the same moment, or single processes of a node that has several (`--processes`)."""

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
"""Child processes of a node."""


async def all_at_once(stage: Stage) -> None:
    """Kills all nodes with kill -9 at the same moment, so that no state in memory survives, and starts them again."""
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
        await stage.back(down)
        stage.end("kill of all")


async def children(stage: Stage) -> None:
    """Kills one process of a node or both with kill -9, or, while one is missing, their supervisor."""
    random = stage.crew.random("children")
    while stage.wanted:
        await moment(stage, random)
        if not await _child_killed(stage, random, random.choice(stage.nodes)):
            break


async def _child_killed(stage: Stage, random: Random, node: Node) -> bool:
    """Kills processes of this node; returns False if there were enough faults already."""
    alive = children_of(node.process.pid)
    whole = len(alive) < CHILDREN  # the supervisor waits longer and longer before each restart
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
    await stage.back(down)
    stage.end("kill of processes", node.name)
    return True
