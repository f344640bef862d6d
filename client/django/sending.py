"""The client of this process, and publishing with the transaction of the request.

Without the outbox a message is sent when the transaction has committed: not after a rollback, nor if the process dies
between commit and publish. With the outbox it is a row of the same transaction.
"""

# Django has no types of its own.
# pyright: standard, reportMissingTypeStubs=false

import atexit
from functools import partial
from typing import Any, Unpack

from django.db import connections, transaction

from .. import spans
from ..errors import NotFound
from ..outbox import Outbox
from ..processes import PerProcess
from ..records import Fields, Receipt
from ..tarry import Tarry
from .configuration import Configuration, configuration

_clients: PerProcess[dict[tuple[str | None, str | None, float], Tarry]] = PerProcess(dict)


def client(of: Configuration | None = None) -> Tarry:
    """The client of this process, made when it is first wanted and closed at the process's end."""
    of = of or configuration()
    known = _clients.get()
    which = (of.url, of.key, of.deadline)
    if which not in known:
        made = known.setdefault(which, Tarry(of.url, key=of.key, deadline=of.deadline))
        atexit.register(made.close)
    return known[which]


def publish_on_commit(topic: str, body: Any, *, using: str | None = None, **fields: Any) -> None:
    """Publishes when the transaction has committed; at once where there is none. Fields: those of `Tarry.publish`.

    A delay runs from the commit. `using` is the alias of the database.
    """
    of = configuration()
    # A part of the trace that is under way now, not of the one at the commit.
    call = spans.later(partial(client(of).publish, topic, body, **fields))
    transaction.on_commit(call, using=using or of.database)


def publish(topic: str, body: Any, **fields: Unpack[Fields]) -> Receipt:
    """Publishes as a row of the open transaction, in a database that has Tarry's tables (setting `OUTBOX`).

    Raises `BadRequest` outside of `atomic`, and `NotFound` for an unknown topic.
    """
    of = configuration()
    with connections[of.database].cursor() as cursor:
        receipt = Outbox(of.outbox_database).publish(cursor, topic, body, **fields)
    transaction.on_commit(partial(_nudge, of, topic), using=of.database, robust=True)
    return receipt


def publish_made(of: Configuration, topic: str, body: Any, **fields: Unpack[Fields]) -> None:
    """Like `publish`, for a topic that may not be there yet: then the server is asked to make it."""
    with connections[of.database].cursor() as cursor:
        write = partial(Outbox(of.outbox_database).publish, cursor, topic, body, **fields)
        try:
            write()
        except NotFound:
            client(of).put_topic(topic)
            write()
    transaction.on_commit(partial(_nudge, of, topic), using=of.database, robust=True)


def _nudge(of: Configuration, topic: str) -> None:
    client(of).nudge(topic)
