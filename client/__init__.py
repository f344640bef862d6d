"""The producer and the consumer for users: `from tarry.client import Tarry, AsyncTarry`.

- `tarry`         the client itself: `consume` and `run`, on top of `api`, which has a method for every other call.
- `calls`         a call as a plain value, with the function that reads its answer; `claims` and `operations` make
                  those that threads and tasks both send.
- `bodies`        requests as JSON; `batches` cuts long ones.
- `sharing`       concurrent callers share requests: `gathering` decides which calls go together, `shares` what each
                  puts in and gets back (both pure), `thread_sharing` and `task_sharing` how callers wait.
- `consumption`   what is behind `consume` and `run`, in threads: `loops` is the logic, for tasks too, `stock` and
                  `holds` its state, `claim_size` how many messages it asks for (pure), `delivery` the message that
                  the user gets, `runner` the workers.
- `coroutines`    runs in threads the code that is written once for threads and tasks.
- `transport`     HTTP, and the only place where a call is tried again.
- `processes`     what must not be shared across a fork: connections, and loops whose threads stay in the parent.
- `async_*`       the same for asyncio and trio, over anyio. Each method of `api` is written once: `fronts` makes it
                  a blocking method for threads and an awaited one for tasks.
- `records`, `errors`, `durations`, `identity`   the values that calls take and return.
- `outbox/`       messages in the user's own transaction: `from tarry.client import outbox`.

It stands alone: it imports nothing of the service, the store or trio, except for the outbox, which shares the store's
ids and SQL.
"""

from .async_tarry import AsyncTarry
from .delivery import AsyncDelivery, Delivery
from .errors import (
    BadRequest,
    Cancelled,
    Changed,
    Conflict,
    Forbidden,
    IdempotencyConflict,
    LeaseLost,
    NotFound,
    Suppressed,
    TarryError,
    TooLarge,
    TooLate,
    Unavailable,
    Unsupported,
)
from .records import (
    Claim,
    DeadLetter,
    Draft,
    Erased,
    Failed,
    Fire,
    Message,
    Pulled,
    Receipt,
    Rescheduled,
    Schedule,
    Timer,
)
from .tarry import Tarry

__all__ = [
    "AsyncDelivery",
    "AsyncTarry",
    "BadRequest",
    "Cancelled",
    "Changed",
    "Claim",
    "Conflict",
    "DeadLetter",
    "Delivery",
    "Draft",
    "Erased",
    "Failed",
    "Fire",
    "Forbidden",
    "IdempotencyConflict",
    "LeaseLost",
    "Message",
    "NotFound",
    "Pulled",
    "Receipt",
    "Rescheduled",
    "Schedule",
    "Suppressed",
    "Tarry",
    "TarryError",
    "Timer",
    "TooLarge",
    "TooLate",
    "Unavailable",
    "Unsupported",
]
