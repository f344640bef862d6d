"""GET /v1/nodes: the servers that work on the same database."""

from ..durations import format_time
from ..engine.cluster.nodes import NodeState
from . import answers
from .asgi import Response
from .call import Call, answer


async def list_nodes(call: Call) -> Response:
    """The servers that are at work on this database, by slot."""
    states = await call.node.nodes.states()
    living = [one.row.level for one in states if one.alive]
    found = [_node(one) for one in states]
    return answer(answers.NodeList(nodes=found, level=min(living, default=call.node.nodes.level)))


def _node(one: NodeState) -> answers.NodeAnswer:
    row, facts = one.row, one.facts
    return answers.NodeAnswer(
        node=row.name,
        boot=row.boot,
        slot=row.slot,
        alive=one.alive,
        duties=one.duties,
        level=row.level,
        version=str(facts.get("version", "")),
        url=str(facts.get("url", "")),
        started_at=format_time(row.started_at),
        renewed_at=format_time(row.renewed_at),
        hand_behind=int(facts.get("hand_behind", 0)),
        timers=int(facts.get("timers", 0)),
        shards=[int(shard) for shard in facts.get("shards", [])],
        leaving=bool(facts.get("leaving")),
        skew=int(facts.get("skew", 0)),
        durability=[str(problem) for problem in facts.get("durability", [])],
    )
