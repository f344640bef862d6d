"""The calls about servers: all nodes, and this server's activity, wheel and guards."""

from ...wheel.entries import SLOTS
from ..activity import BAND, BOUNDS
from ..durations import format_time
from ..engine.cluster.nodes import NodeState
from ..engine.dispatch.guards import GuardState
from ..places import masked
from . import answers
from .asgi import Response
from .call import Call, answer


async def list_nodes(call: Call) -> Response:
    """List the servers on this database, by slot."""
    states = await call.node.nodes.states()
    living = [one.row.level for one in states if one.alive]
    found = [_node(one) for one in states]
    return answer(answers.NodeList(nodes=found, level=min(living, default=call.node.nodes.level)))


def _node(one: NodeState) -> answers.NodeAnswer:
    row, facts = one.row, one.facts
    return answers.NodeAnswer.of(
        row,
        node=row.name,
        alive=one.alive,
        duties=one.duties,
        version=str(facts.get("version", "")),
        url=str(facts.get("url", "")),
        hand_behind=int(facts.get("hand_behind", 0)),
        timers=int(facts.get("timers", 0)),
        shards=[int(shard) for shard in facts.get("shards", [])],
        leaving=bool(facts.get("leaving")),
        skew=int(facts.get("skew", 0)),
        durability=[str(problem) for problem in facts.get("durability", [])],
    )


async def tell_activity(call: Call) -> Response:
    """Show what this server did in each second of the last five minutes, and how late messages were."""
    activity = call.activity
    lateness = answers.LatenessAnswer(step=1000 * BAND, bounds=list(BOUNDS), counts=activity.lateness())
    return answer(
        answers.ActivityAnswer(
            node=call.settings.node,
            at=format_time(call.node.clock.now()),
            step=1000,
            **activity.rates(),
            lateness=lateness,
        )
    )


async def tell_wheel(call: Call) -> Response:
    """Show how many entries are in each of the 3600 slots of this server's wheel."""
    pending, now = call.node.pending, call.node.clock.now()
    second = now // 1000
    # The loads from now on, an hour ahead; then rotated so that the first is that of the hour's first second.
    loads = [pending.wheel.load(second + ahead) or 0 for ahead in range(SLOTS)]
    place = second % SLOTS
    return answer(
        answers.WheelAnswer(
            node=call.settings.node,
            at=format_time(now),
            hand=place,
            entries=len(pending),
            behind=pending.behind,
            slots=loads[SLOTS - place :] + loads[: SLOTS - place],
        )
    )


async def list_guards(call: Call) -> Response:
    """List the guards that this server declares, or that its messages name, and how many messages wait for each
    here."""
    return answer(answers.GuardList(guards=[_guard(one) for one in call.node.guards.states()]))


def _guard(one: GuardState) -> answers.GuardAnswer:
    guard = one.declared
    if guard is None:
        of_it = dict.fromkeys(("table", "key_column", "condition", "dsn", "timeout"))
        return answers.GuardAnswer.of(one, **of_it, guard=one.name, declared=False, holds=one.why)
    dsn = masked(guard.dsn)
    return answers.GuardAnswer.of(guard, guard=one.name, declared=True, dsn=dsn, waiting=one.waiting, holds=one.why)
