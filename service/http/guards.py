"""GET /v1/guards: who is asked at a message's time whether it is sent."""

from ..engine.dispatch.guards import GuardState
from ..places import masked
from . import answers
from .asgi import Response
from .call import Call, answer


async def list_guards(call: Call) -> Response:
    """The guards that this server declares, and what waits for their answers here."""
    return answer(answers.GuardList(guards=[_guard(one) for one in call.node.guards.states()]))


def _guard(one: GuardState) -> answers.GuardAnswer:
    guard = one.declared
    return answers.GuardAnswer(
        guard=one.name,
        declared=guard is not None,
        table=None if guard is None else guard.table,
        key_column=None if guard is None else guard.key_column,
        condition=None if guard is None else guard.condition,
        dsn=None if guard is None else masked(guard.dsn),
        timeout=None if guard is None else guard.timeout,
        waiting=one.waiting,
        holds=one.why,
    )
