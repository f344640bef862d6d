"""The tasks of a node: those that run for ever, those that run every so often, and the order in which they start."""

from collections.abc import Awaitable, Callable
from functools import partial, wraps

import trio

from ..store.errors import StoreError
from .access import keyring
from .node import Node
from .notices import Heard
from .rounds import every, until_done
from .upkeep.cleaner import EVERY, EVERY_SHORT


async def run_tasks(node: Node) -> None:
    sweeps, sealer, cleaner = node.sweeps, node.sealer, node.cleaner
    node.coverage.loading()
    async with trio.open_nursery() as nursery:
        node.groups.open(nursery)
        node.intake.open(nursery)
        node.timers.open(nursery)
        for run in (node.nodes.run, node.liveness.run, node.readers.run, node.alarm.run):
            nursery.start_soon(run)
        for run in (node.dispatcher.run, node.unblocking.run, node.guards.run, node.loader.run):
            nursery.start_soon(run)
        nursery.start_soon(every, 2, node.clock_watch.take)
        nursery.start_soon(node.write_probe.run)
        nursery.start_soon(every, 1, node.write_probe.look)
        nursery.start_soon(every, 0.2, node.host_watch.look)
        nursery.start_soon(every, 1, node.store.backend.agree)
        nursery.start_soon(every, 0.2, node.directory.refresh_in_time)
        if node.store.backend.shared:
            nursery.start_soon(every, 0, node.pauses.look_in_time)
        nursery.start_soon(every, keyring.EVERY, node.keyring.refresh)
        nursery.start_soon(every, 1, sweeps.look)
        nursery.start_soon(every, 1, sweeps.near)
        nursery.start_soon(every, 1, node.lookahead.look_ahead)
        nursery.start_soon(every, 1, node.promotion.try_again)
        await until_done(sweeps.watch_all, (StoreError,))
        nursery.start_soon(every, node.liveness.round, partial(look_after_clients, node))
        if node.store.backend.shared:
            nursery.start_soon(every, node.liveness.round, node.members.look)
        node.pushers.open(nursery)
        nursery.start_soon(every, node.pushers.rest, node.pushers.look)
        nursery.start_soon(every, 10, sweeps.leases)
        nursery.start_soon(every, 10, duty(node, node.schedules.mend))
        nursery.start_soon(every, node.forecast.rest, duty(node, node.forecast.add_up))
        nursery.start_soon(every, 60, duty(node, node.forecast.look))
        nursery.start_soon(partial(every, 120, *forgetting(node)))
        nursery.start_soon(every, 60, duty(node, sealer.look_everywhere))
        nursery.start_soon(sealer.run)
        nursery.start_soon(every, 1, sealer.look)
        if node.notices is not None:
            heard: Heard = {
                "grown": node.signals.queue_seen,
                "group": node.signals.group_freed,
                "catalogue": partial(note_change, node),
                "node": node.nodes.look_soon,
            }
            nursery.start_soon(node.notices.run, heard)
        nursery.start_soon(every, 10, duty(node, node.intake.count_outbox))
        nursery.start_soon(every, 10, duty(node, node.writer_watch.look, node.writer_watch.forget))
        nursery.start_soon(every, 20, duty(node, node.measures.take, node.measures.forget))
        await node.loader.recovered.wait()
        node.coverage.loaded()
        nursery.start_soon(until_done, node.guards.look_for_undeclared, (StoreError,))
        nursery.start_soon(every, 60, duty(node, sweeps.far))
        nursery.start_soon(every, EVERY, cleaner.write_seen)
        nursery.start_soon(every, EVERY, duty(node, cleaner.clean))
        nursery.start_soon(every, EVERY_SHORT, duty(node, cleaner.clean_short))
        nursery.start_soon(every, 60, duty(node, node.remover.clear))
        nursery.start_soon(node.remover.run)
        nursery.start_soon(every, 0.02, sweeps.when_nudged)


def forgetting(node: Node) -> list[Callable[[], Awaitable[None]]]:
    """The steps that remove small things that are past their time. They run one after another: at once, each would open
    a database session of its own, and close it."""
    steps: list[Callable[[], Awaitable[object]]] = [
        node.members.forget,
        node.sweeps.idempotency_keys,
        node.timers.forget,
        node.forecast.forget,
        node.schedules.forget,
        node.client_owners.forget_unused,
    ]
    return [duty(node, step) for step in steps if node.store.backend.shared or step != node.members.forget]


def duty(
    node: Node, step: Callable[[], Awaitable[object]], otherwise: Callable[[], None] = lambda: None
) -> Callable[[], Awaitable[None]]:
    """The step, made to wait until this node has the duties; `otherwise` is called first where it has to wait."""

    @wraps(step)  # the log has the step's name
    async def take() -> None:
        if not node.nodes.has_duties:
            otherwise()
            await node.nodes.until_duties()
        await step()

    return take


def note_change(node: Node, topic_id: int) -> None:
    node.directory.note_change(topic_id)
    node.pauses.note_change(topic_id)


async def look_after_clients(node: Node) -> None:
    node.groups.look_around()
    await node.liveness.look_after()
