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

- `box`       `Outbox`, and the functions that both fronts share.
- `aio`       the front for asynchronous cursors.
- `cursors`   the store's transaction over a user's cursor.
- `lending`   objects that lend a cursor, such as a `Session`.
- `drafts`    checks of messages to be published.
- `guards`    the table `tarry_once`.
- `transactions`   checks that a transaction is open.
- `settling`  the block of `settle`.
- `moved`     by how much a test has moved the time.
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
