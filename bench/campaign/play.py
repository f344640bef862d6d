"""One run of a row: nodes on a database, the load, the faults, the drain, and the checker's verdict."""

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import trio

from ..checker.event import read
from ..checker.report import check
from ..lean_http import LeanHTTP
from ..proxy import Proxy
from ..report import say
from .clockwork import keep_telling_fires, make_schedules, pause_schedules
from .crew import Crew
from .database import Server, private_redis
from .drain import Drain
from .journal import Journal
from .load import loaded, make_topics
from .node import Node
from .plan import setup
from .rows import Row
from .shims import Lever, Shim
from .stage import Order, Outcome, Stage

_ENVIRONMENT = {"TARRY_LOG_LEVEL": "warning"}


async def run(row: Row, order: Order, database: Server, folder: Path, shim: Shim | None = None) -> Outcome:
    """Plays it, and has it judged."""
    began = time.monotonic()
    path = folder / "history.jsonl"
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(path))
        journal.write("setup", "ok", facts=setup())
        redis = stack.enter_context(private_redis(folder)) if row.redis else None
        settings = {**row.environment, **({"TARRY_REDIS": redis.dsn} if redis else {})}
        levers = _levers(order, database, shim)
        async with _running(row, order, database, journal, settings, levers) as (nodes, proxies):
            hosts = {node.port: node.host for node in nodes}
            crew = Crew(journal, list(hosts), order.seed, order.rate, connect=lambda port: LeanHTTP(port, hosts[port]))
            await make_topics(crew, "redis" if redis else "store")
            await make_schedules(crew, crew.caller("schedules"))
            stage = Stage(
                order, database, redis, nodes, proxies, crew, journal, time.monotonic() + order.seconds, levers
            )
            async with loaded(crew), _telling(stage):
                await row.do(stage)
                crew.publishing = False
                crew.gate.set()
                with trio.move_on_after(order.drain_seconds):
                    await pause_schedules(crew, crew.caller("schedules"))
                await Drain(crew, crew.caller("drain")).run(order.drain_seconds)
    report = await trio.to_thread.run_sync(lambda: check(read(path)))
    return Outcome(stage.done, time.monotonic() - began, max(stage.ups, default=0), report)


def _levers(order: Order, database: Server, shim: Shim | None) -> Mapping[str, Lever]:
    """Of the nodes: a file is written by its node, and every node has a clock."""
    names = [f"n{n}" for n in range(order.nodes)]
    if database.program is None and database.lever is not None:
        return dict.fromkeys(names, database.lever)
    return {name: shim.lever(name) for name in names} if shim is not None and shim.name == "clock" else {}


@asynccontextmanager
async def _running(
    row: Row, order: Order, database: Server, journal: Journal, settings: Mapping[str, str], levers: Mapping[str, Lever]
) -> AsyncGenerator[tuple[list[Node], list[Proxy]], None]:
    """The nodes, ready; over a line that can be cut, if it is to be. They have ended when it is left."""
    async with trio.open_nursery() as nursery:
        proxies: list[Proxy] = []
        nodes: list[Node] = []
        try:
            for n in range(order.nodes):
                dsn = database.dsn
                if row.cut:
                    proxies.append(await nursery.start(Proxy(dsn).run))
                    dsn = proxies[-1].dsn
                plant = order.plant if n == 0 else ""
                name = f"n{n}"
                environment = {**_ENVIRONMENT, **settings}
                if name in levers:
                    environment |= levers[name].environment
                place = database.network.place("callers", "clients")
                nodes.append(Node(name, journal.path.parent / name, dsn, environment, plant, place))
                await nodes[-1].start()
            yield nodes, proxies
            async with trio.open_nursery() as stopping:
                for node in nodes:
                    stopping.start_soon(_stop, node, journal)
        finally:
            for node in nodes:
                node.kill()
        nursery.cancel_scope.cancel()


async def _stop(node: Node, journal: Journal) -> None:
    if code := await node.stop():
        journal.write("fault", "fail", reason=f"ended with {code}", node=node.name)


@asynccontextmanager
async def _telling(stage: Stage) -> AsyncGenerator[None, None]:
    """How far it is, on a terminal; and the fire times, in the history."""

    async def tell() -> None:
        counts = stage.journal.counts
        while True:
            published, acked = counts["publish", "ok"], counts["ack", "ok"]
            end = "" if stage.crew.publishing else ", draining"
            say(f"{stage.done} of {stage.order.count} faults, {published} published, {acked} acks{end}")
            await trio.sleep(0.5)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tell)
        nursery.start_soon(keep_telling_fires, stage.crew, stage.crew.caller("fires"))
        yield
        nursery.cancel_scope.cancel()
