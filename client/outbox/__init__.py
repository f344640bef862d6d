"""Messages in the user's own transaction: `from tarry.client import outbox`.

    outbox.publish(cursor, "orders", {"order": 7}, delay="30m", key="order-7")
    outbox.cancel(cursor, topic="orders", key="order-7")
    outbox.set_timer(cursor, "orders", "order-7", {"order": 7}, delay="30m")
    outbox.ack(cursor, message)
    outbox.once(cursor, message)
    with outbox.settle(connection, message) as cursor: ...

`cursor` is any DB-API cursor of PyMySQL, mysqlclient or mysql-connector-python, or a `Session` or `Connection` of
SQLAlchemy that lends one, on the MySQL or MariaDB of the service. Changes take effect when your transaction is
committed, and are undone if it is rolled back. The service's tables are expected in the cursor's own database;
`Outbox(database="tarry")` says otherwise.
`outbox.aio` is the same for asynchronous cursors.
"""

from . import aio
from .box import Outbox

_default = Outbox()

publish = _default.publish
publish_many = _default.publish_many
cancel = _default.cancel
set_timer = _default.set_timer
cancel_timer = _default.cancel_timer
ack = _default.ack
once = _default.once
settle = _default.settle
prepare = _default.prepare
forget = _default.forget

__all__ = [
    "Outbox",
    "ack",
    "aio",
    "cancel",
    "cancel_timer",
    "forget",
    "once",
    "prepare",
    "publish",
    "publish_many",
    "set_timer",
    "settle",
]
