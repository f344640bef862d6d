"""The calls about clients: list, renew, deregister."""

import trio
from msgspec import UNSET

from ...store.errors import StoreError
from ..durations import format_time
from ..errors import NothingToSettle, ServiceError, UnknownClaim
from ..outages import tell_failure
from . import answers, rendering
from .asgi import Response
from .call import Call, answer
from .claims import Settling, beginning
from .messages import PAGE
from .names import wrong_client
from .problems import Problem, bad_cursor
from .reading import has_body
from .requests import Renew


async def list_clients(call: Call) -> Response:
    """List the clients, and what they hold."""
    query = call.query
    limit = call.number(query.get("max"), "max", default=PAGE, low=1, high=1000)
    after = query.get("cursor", "")
    if after and wrong_client(after):
        raise bad_cursor()
    found = await call.node.clients.page(after, limit + 1)
    page, more = found[:limit], len(found) > limit
    clients = [rendering.client(one) for one in page]
    return answer(answers.ClientPage(clients=clients, cursor=page[-1].name if more else None))


async def renew(call: Call) -> Response:
    """Renew a client: it is alive, and watched from now on.

    It is dead when nothing is heard of it for a while. The attempts at messages that it has begun count then.
    """
    name = await call.own_client(call.part("client"))
    request = await call.read(Renew) if has_body(call.request) else Renew()
    begun = [
        (one.claim, beginning(call, one.claim, one.ids, f"/begun/{index}/ids"))
        for index, one in enumerate(request.begun or ())
    ]
    alive_until = await call.node.liveness.renew(name)
    untold: list[str] = []
    async with trio.open_nursery() as nursery:
        for claim, begin in begun:
            nursery.start_soon(_note, call, claim, begin, untold)
    alive_for = call.settings.client_timeout
    return answer(
        answers.RenewAnswer(
            client=name, alive_until=format_time(alive_until), alive_for=alive_for, untold=untold or UNSET
        )
    )


async def _note(call: Call, claim: str, begin: Settling, untold: list[str]) -> None:
    """Notes which messages of a claim were begun. A failure is no reason to treat the client as dead."""
    try:
        await call.check_claim(claim)
        await begin()
    except (Problem, UnknownClaim, NothingToSettle):
        return  # the claim is settled, or over
    except (StoreError, ServiceError) as error:  # for example Busy: a user's transaction is acking messages of it
        tell_failure("begun_not_noted", error, client=call.part("client"))
        untold.append(claim)


async def deregister(call: Call) -> Response:
    """Deregister a client; its claims end at once.

    A client that belongs to another key, or to a server, is answered like one that does not exist.
    """
    name = call.part("client")
    registered, claims = False, 0
    if await call.node.client_owners.may_end(name, call.holder):
        registered, claims = await call.node.liveness.deregister(name)
        await call.node.client_owners.leave(name, call.holder)
    return answer(answers.DeregisterAnswer(client=name, registered=registered, claims=claims))
