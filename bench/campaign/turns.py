"""A fault: a node stops in the middle of a group's turn, with its transaction open, half done or just committed, while
an operator moves the group's cursors and redrives its dead letters through the other nodes."""

from pathlib import Path
from random import Random

import trio

from .consumers import LEASE_MS
from .crew import until
from .faults import PATIENCE
from .node import NO_POINT, Node
from .operators import Operator
from .stage import Stage

POINTS = (
    "cursor.free:after",
    "claim.add:after",
    "claim.add:commit",
    "claim.add:committed",
    "claim.change:after",
    "claim.change:committed",
    "claim.remove:after",
    "delivery.add:after",
    "retry.add:after",
    "retry.add:commit",
    "retry.add:committed",
    "dead.add:after",
    "dead.add:committed",
    "redelivery.add:after",
)
"""Where the node stops; see `killing`."""


async def turns(stage: Stage) -> None:
    """Stops the first node within a turn, again and again; the others go on."""
    node = stage.nodes[0]
    random, others = stage.crew.random("turn"), [other.port for other in stage.nodes[1:]] or [node.port]
    operator = Operator(stage.crew, stage.crew.caller("turn", others))
    while stage.wanted:
        point = random.choice(POINTS)
        await node.stop()  # a point works once for each start
        await node.start((point, str(random.randrange(1, 6))))
        if not await _stands(node):
            continue
        if not stage.begin(f"stopped at {point}", node.name):
            break
        try:
            await _meddle(operator, random)
        finally:
            node.resume()
            stage.end("stopped", node.name)
        await stage.journal.reached("ack:ok", random.randrange(1, 50), PATIENCE)
    node.resume()
    node.kill()
    await node.start(NO_POINT)  # no node may stop in the drain
    await operator.caller.close()


async def _stands(node: Node) -> bool:
    """Waits until the node has stopped at its point; returns whether it has."""
    stat = Path(f"/proc/{node.process.pid}/stat")
    return await until(lambda: stat.read_text().rpartition(") ")[2].startswith("T"), PATIENCE)


async def _meddle(operator: Operator, random: Random) -> None:
    """Operates for a random time, up to three times the lease of a claim."""
    with trio.move_on_after(LEASE_MS / 1000 * random.uniform(0.2, 3)):
        while True:
            await operator.operate(random)
            await trio.sleep(random.uniform(0.05, 1))
