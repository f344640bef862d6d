"""Clients: signs of life, and going."""

from ..durations import format_time
from . import answers, rendering
from .asgi import Response
from .call import Call, answer
from .messages import PAGE
from .names import wrong_client
from .problems import bad_cursor


async def list_clients(call: Call) -> Response:
    """The clients there are, and what they hold."""
    query = call.query
    limit = call.number(query.get("max"), "max", default=PAGE, low=1, high=1000)
    after = query.get("cursor", "")
    if after and wrong_client(after):
        raise bad_cursor()
    found = await call.node.roster.page(after, limit + 1)
    page, more = found[:limit], len(found) > limit
    clients = [rendering.client(one) for one in page]
    return answer(answers.ClientPage(clients=clients, cursor=page[-1].name if more else None))


async def renew(call: Call) -> Response:
    """The client lives, and is watched from now on.

    It is dead when nothing is heard of it any more.
    """
    name = await call.own_client(call.part("client"))
    alive_until = await call.node.membership.renew(name)
    alive_for = call.settings.client_timeout
    return answer(answers.RenewAnswer(client=name, alive_until=format_time(alive_until), alive_for=alive_for))


async def deregister(call: Call) -> Response:
    """The client goes, and its claims end at once.

    Of one that is another key's, or a server's own, it is said what is said of one that is not there.
    """
    name = call.part("client")
    registered, claims = False, 0
    if await call.node.client_owners.may_end(name, call.holder):
        registered, claims = await call.node.membership.deregister(name)
        await call.node.client_owners.leave(name, call.holder)
    return answer(answers.DeregisterAnswer(client=name, registered=registered, claims=claims))
