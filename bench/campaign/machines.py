"""Faults of machines: clocks that are set and disks that are full, as simulated by `shims`."""

import math
import time
from random import Random

import trio

from .caller import Caller
from .crew import ms_of
from .faults import PATIENCE, moment
from .stage import Stage

HOUR_MS = 3_600_000
_FOLLOWS = 30.0
"""Seconds within which all nodes must follow a step of the database's clock."""
_SEEN = 4.0
"""Seconds after which every node has sampled the clock, as it does every other second."""
_NEAR_MS = 2_500
"""How far a node's last heartbeat may be from now; it renews it every other second."""


async def clocks(stage: Stage) -> None:
    """Sets the clock of the database or of a node forwards and backwards, up to two hours ahead. In the end sets the
    database's clock to the latest it has been, so that no message waits for a time that has already passed once."""
    random, caller = stage.crew.random("clock"), stage.crew.caller("clock")
    ahead = dict.fromkeys(stage.levers, 0)
    database, latest = 0, 0
    while stage.wanted:
        await moment(stage, random)
        # With SQLite the node's clock counts; otherwise the database's.
        if stage.database.program is not None and random.random() < 0.6:
            before, database = database, _stepped(random, database)
            if not await _set_database(stage, caller, database):
                database = before
                break
            latest = max(latest, database)
        else:
            name = random.choice(sorted(ahead))
            ahead[name] = _stepped(random, ahead[name])
            if not stage.begin("clock of a node", name):
                break
            stage.levers[name].set(ahead[name] * 1_000_000)
            stage.end("clock of a node", name)
        await stage.journal.reached("ack:ok", random.randrange(1, 100), PATIENCE)
    if database < latest:
        await _set_database(stage, caller, latest, last=True)
    await caller.close()


def _stepped(random: Random, ahead: int) -> int:
    """The new lead in milliseconds, 0 to 2 h: a step of 1 s to 1 h either way, small ones as often as large ones."""
    step = round(1000 * math.exp(random.uniform(0, math.log(HOUR_MS / 1000))))
    back = ahead - step >= 0 and (ahead + step > 2 * HOUR_MS or random.random() < 0.5)
    return ahead - step if back else ahead + step


async def _set_database(stage: Stage, caller: Caller, ahead: int, *, last: bool = False) -> bool:
    """Sets the clock and waits until all nodes follow; returns False if there were enough faults already."""
    lever, what = stage.database.lever, "clock of the database"
    assert lever is not None
    if last:
        stage.journal.write("fault", "invoke", reason=what, facts={"ahead_ms": ahead})
    elif not stage.begin(what, ahead_ms=ahead):
        return False
    lever.set(ahead * 1_000_000)
    stage.crew.ahead_ms = ahead
    began = time.monotonic()
    await trio.sleep(_SEEN)
    while not await _follow(stage, caller, ahead):
        if time.monotonic() - began > _FOLLOWS:
            stage.stuck("a node does not follow the database's clock")
            break
        await trio.sleep(0.3)
    stage.end(what, ahead_ms=ahead)
    return True


async def _follow(stage: Stage, caller: Caller, ahead: int) -> bool:
    """Whether the last heartbeat of every node is near the time of the clock that was set."""
    answer = await caller.ask("GET", "/v1/nodes")
    if answer.phase != "ok":
        return False
    now = time.time() * 1000 + ahead
    near = [node for node in answer.data["nodes"] if abs(ms_of(node["renewed_at"]) - now) < _NEAR_MS]
    return len(near) == len(stage.nodes)


async def full_disks(stage: Stage) -> None:
    """Makes the database's disk full, until some seconds after the first write was refused."""
    random, lever = stage.crew.random("disk"), stage.database.lever
    assert lever is not None
    while stage.wanted:
        await moment(stage, random)
        if not stage.begin("disk full"):
            break
        before = lever.refused
        lever.set(1)
        try:
            with trio.move_on_after(PATIENCE):
                while lever.refused == before:
                    await trio.sleep(0.01)
            if lever.refused == before:
                stage.done -= 1  # nothing was refused, so there was no fault
            else:
                await trio.sleep(random.uniform(0.2, 5))
        finally:
            lever.set(0)
        there = time.monotonic()
        await stage.back(there)
        stage.end("disk full")
        await stage.journal.reached("ack:ok", random.randrange(20, 200), PATIENCE)
