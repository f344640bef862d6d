"""The producer and the consumer for users: `from tarry.client import Tarry, AsyncTarry`.

- `tarry`         what users make: `consume` and `run`, on top of `api`, which has a method for each other call.
- `calls`         a call as a plain value, and how its answer is read; `claims` and `operations` make them. What threads
                  and tasks both send is written there once.
- `bodies`        requests as JSON; `batches` cuts long ones.
- `sharing`       callers at the same time share requests: `gathering` is who goes with whom, `shares` what each puts in
                  and gets back (both pure), `thread_sharing` and `task_sharing` how they wait.
- `consumption`   what is behind `consume` and `run`, in threads: `loops` is what it does, in tasks too, `stock` and
                  `holds` are its state, `claim_size` how much it asks for (pure), `delivery` what the user holds,
                  `runner` the workers.
- `coroutines`    how threads run what is written once for them and for tasks.
- `transport`     HTTP, and the only place where a call is tried again.
- `processes`     what a fork does not share: connections, and whose threads a loop has.
- `async_*`       the same for asyncio and trio, over anyio. The methods of `api` stand once: `fronts` says how threads
                  have them, and how tasks do.
- `records`, `errors`, `durations`, `identity`   what goes in and comes out.
- `outbox/`       messages in the user's own transaction: `from tarry.client import outbox`.

It stands alone: nothing of the service, the store or trio is imported, but for the outbox, which shares the store's ids
and SQL.
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
