"""Clients and their liveness."""

from starlette.responses import Response

from ..durations import format_time
from . import answers
from .call import Call, answer
from .names import wrong_client
from .problems import Problem


def _name(call: Call) -> str:
    name: str = call.request.path_params["client"]
    if wrong := wrong_client(name):
        raise Problem("bad-request", f"client {name[:100]!r}: {wrong}")
    return name


async def renew(call: Call) -> Response:
    """The client lives; from its first renewal on it is dead when nothing is heard of it."""
    name = _name(call)
    call.query()
    alive_until = await call.broker.renew(name)
    return answer(
        answers.RenewAnswer(
            client=name,
            alive_until=format_time(alive_until),
            alive_for=call.settings.client_timeout,
        )
    )


async def deregister(call: Call) -> Response:
    """The client goes: its claims end at once."""
    name = _name(call)
    call.query()
    registered, claims = await call.broker.deregister(name)
    return answer(answers.DeregisterAnswer(client=name, registered=registered, claims=claims))
