"""The faults: each is chosen by seed and injected at the moment when a chosen event happens."""

import time
from random import Random

import trio
from redis import Redis

from ..proxy import MOMENTS, SILENCES, Proxy
from .consumers import LEASE_MS
from .node import NO_POINT, Node
from .stage import Stage

MOMENTS_SEEN = ("publish:invoke", "publish:ok", "claim:invoke", "claim:ok", "ack:invoke", "ack:ok", "cancel:invoke")
"""Events of the history that a fault may follow at once."""

_EACH = ("after", "commit", "committed")
_POINTS = tuple(
    f"{query}:{moment}"
    for query, moments in {
        "delay.add_bare": _EACH,
        "delay.add": _EACH,
        "message.add": ("before", *_EACH),
        "message.add_bare": _EACH,
        "delay.lock_due": ("after",),
        "message.promote": ("after",),
        "delay.remove": ("commit", "committed"),
        "cancelled.add": _EACH,
        "claim.add": _EACH,
        "delivery.add": _EACH,
        "retry.add": _EACH,
        "redelivery.add": _EACH,
        "dead.add": _EACH,
        "idempotency.add": _EACH,
        "delay.move": _EACH,
        "parked.add": ("after", "committed"),
    }.items()
    for moment in moments
)
"""Points of publish, promote, cancel, claim, ack, fail and dead letters where a node may kill itself, see `killing`."""

_RARE = "cancel:invoke"
PATIENCE = 10.0
"""Seconds to wait for an event: each comes at least that often, unless all nodes are down."""
_SHORTEST, _LONGEST = 0.3, 12.0
"""Seconds that a connection is down. The others take a node that is cut off for dead after five seconds; sessions are
given up after about three."""


async def moment(stage: Stage, random: Random, most: int = 60) -> None:
    """Waits until a random event has happened a few times more."""
    what = random.choice(MOMENTS_SEEN)
    times = 1 if what == _RARE else random.randrange(1, most)
    await stage.journal.reached(what, times, PATIENCE)


async def kills(stage: Stage) -> None:
    """Kills nodes with SIGKILL, at named points of the code and at any moment."""
    async with trio.open_nursery() as nursery:
        for node in stage.nodes:
            nursery.start_soon(_kills_of, stage, node)


async def _kills_of(stage: Stage, node: Node) -> None:
    random, armed = stage.crew.random(f"kill/{node.name}"), False
    while stage.wanted:
        if armed:
            with trio.move_on_after(PATIENCE):
                while not node.process.ended:
                    await trio.sleep(0.01)
        else:
            await moment(stage, random)
        if not stage.begin("kill at a point" if node.process.ended else "kill", node.name):
            break
        node.kill()
        await _up(stage, node, _point(random) if random.random() < 0.6 else NO_POINT)
        armed = node.armed
    if armed:  # no node may die in the drain
        node.kill()
        await _up(stage, node, NO_POINT)


def _point(random: Random) -> tuple[str, str]:
    """A point, and the number of the time it is reached at which the node dies."""
    return random.choice(_POINTS), str(random.randrange(1, 9))


async def _up(stage: Stage, node: Node, point: tuple[str, str]) -> None:
    await node.start(point)
    stage.ups.append(node.up_ms)
    stage.end("kill", node.name)


async def pauses(stage: Stage) -> None:
    """Pauses nodes with SIGSTOP for longer than the leases of claims; where there are several, never all of them."""
    async with trio.open_nursery() as nursery:
        for node in stage.nodes[: max(1, len(stage.nodes) - 1)]:
            nursery.start_soon(_pauses_of, stage, node)


async def _pauses_of(stage: Stage, node: Node) -> None:
    random = stage.crew.random(f"pause/{node.name}")
    while stage.wanted:
        await moment(stage, random)
        if not stage.begin("pause", node.name):
            break
        node.pause()
        try:
            await trio.sleep(LEASE_MS / 1000 * random.uniform(1.1, 3))
        finally:
            node.resume()
            stage.end("pause", node.name)
        await stage.journal.reached("ack:ok", random.randrange(1, 100), PATIENCE)


async def cuts(stage: Stage) -> None:
    """Cuts the connection between a node and the database around a COMMIT."""
    async with trio.open_nursery() as nursery:
        for number, proxy in enumerate(stage.proxies):
            nursery.start_soon(_cuts_of, stage, proxy, number)


async def _cuts_of(stage: Stage, proxy: Proxy, number: int) -> None:
    random = stage.crew.random(f"cut/{number}")
    while stage.wanted:
        await moment(stage, random, 8)
        which = random.choice(MOMENTS)
        if not stage.begin(f"cut {which}", f"n{number}"):
            break
        cut = proxy.cut(which)
        with trio.move_on_after(PATIENCE) as scope:
            await cut.done.wait()
        if scope.cancelled_caught:  # nothing was committed, so there was no fault
            proxy.cuts.remove(cut)
            stage.done -= 1
        stage.end("cut", f"n{number}")


async def lines(stage: Stage) -> None:
    """Takes the connections between a node and the database down: cut, with new ones refused, or silent in one or both
    directions, where everything arrives after the silence."""
    random = stage.crew.random("line")
    while stage.wanted:
        await moment(stage, random)
        number, how = random.randrange(len(stage.proxies)), random.choice((None, *SILENCES))
        name, what, proxy = f"n{number}", f"line silent: {how}" if how else "line cut", stage.proxies[number]
        if not stage.begin(what, name):
            break
        try:
            if how is None:
                proxy.shut()
            else:
                proxy.hush(how)
            await trio.sleep(random.uniform(_SHORTEST, _LONGEST))
        finally:
            proxy.open()
        if not await stage.journal.reached("publish:ok", 1, 3 * PATIENCE):
            stage.stuck("the service did not come back in time")
        stage.end(what, name)
        await stage.journal.reached("ack:ok", random.randrange(1, 100), PATIENCE)


async def databases(stage: Stage) -> None:
    """Kills the database server with kill -9, or stops it in order, and starts it again."""
    random = stage.crew.random("database")
    while stage.wanted:
        await moment(stage, random)
        killed = random.random() < 0.8
        if not stage.begin("database killed" if killed else "database stopped"):
            break
        down = time.monotonic()
        await trio.to_thread.run_sync(stage.database.kill if killed else stage.database.stop)
        await trio.to_thread.run_sync(stage.database.start)
        await stage.back(down)
        stage.end("database")
        await stage.journal.reached("ack:ok", random.randrange(20, 200), PATIENCE)


async def forgetful_redis(stage: Stage) -> None:
    """Empties the Redis that offsets are drawn from, by FLUSHALL or by kill -9 and an empty start."""
    random, redis = stage.crew.random("redis"), stage.redis
    assert redis is not None
    while stage.wanted:
        await moment(stage, random)
        killed = random.random() < 0.5
        if not stage.begin("redis killed" if killed else "redis flushed"):
            break
        if killed:
            await trio.to_thread.run_sync(redis.kill)
            await stage.journal.reached("publish:invoke", random.randrange(1, 20), PATIENCE)
            await trio.to_thread.run_sync(redis.start)
        else:
            await trio.to_thread.run_sync(_flush, redis.dsn)
        stage.end("redis")
        await stage.journal.reached("publish:ok", random.randrange(5, 50), PATIENCE)


def _flush(url: str) -> None:
    Redis.from_url(url).flushall()  # pyright: ignore[reportUnknownMemberType]


async def nothing(stage: Stage) -> None:
    """No fault: only the load, for `count` rounds. The checker looks for planted bugs in it."""
    while stage.begin("none"):
        await stage.journal.reached("publish:ok", 40, PATIENCE)
