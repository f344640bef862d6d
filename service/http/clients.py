"""Clients: signs of life, and going."""

from starlette.responses import Response

from ..durations import format_time
from . import answers, rendering
from .call import Call, answer
from .messages import PAGE
from .names import wrong_client
from .problems import Problem, bad_parameter


def _name(call: Call) -> str:
    name: str = call.request.path_params["client"]
    if wrong := wrong_client(name):
        raise Problem("bad-request", f"client {name[:100]!r}: {wrong}")
    return name


async def list_clients(call: Call) -> Response:
    """A page of the clients there are, by name."""
    query = call.query("max", "cursor")
    limit = call.number(query.get("max"), "max", default=PAGE, low=1, high=1000)
    after = query.get("cursor", "")
    if after and wrong_client(after):
        raise bad_parameter("cursor", "pass the cursor of the page before, as it is")
    found = await call.node.roster.page(after, limit + 1)
    page, more = found[:limit], len(found) > limit
    clients = [rendering.client(one) for one in page]
    return answer(answers.ClientPage(clients=clients, cursor=page[-1].name if more else None))


async def renew(call: Call) -> Response:
    """The client lives; from its first renewal on it is dead when nothing is heard of it."""
    name = _name(call)
    call.query()
    alive_until = await call.node.membership.renew(name)
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
    registered, claims = await call.node.membership.deregister(name)
    return answer(answers.DeregisterAnswer(client=name, registered=registered, claims=claims))
