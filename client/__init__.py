"""The producer and the consumer for users: `from tarry.client import Tarry, AsyncTarry`.

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
