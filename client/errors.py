"""What a call can come to: one base, flat. Made from the server's problem in one place, `refusal`."""

from collections.abc import Callable, Mapping
from typing import Any


class TarryError(Exception):
    """The call did not succeed. `status`, `problem` and `errors` are the server's, where it answered."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        problem: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem: Mapping[str, Any] = problem or {}
        self.errors: list[dict[str, Any]] = self.problem.get("errors") or []
        """For bad fields: `{"pointer": "/delay", "detail": "..."}`."""
        self.retry_after = retry_after
        """Seconds after which the server wants to be asked again."""
        self.in_doubt = False
        """An earlier try of the call, whose answer was lost, may have done what was asked. A fail that is tried again
        after such a try raises `LeaseLost` either way: the messages are out of this client's hands and come again."""


OnFailure = Callable[[str, Any, TarryError], object]
"""Called with topic, body (a list of them for a batch) and error when a publish has finally failed."""


class BadRequest(TarryError):
    """The request is not one the server takes; `errors` names the fields."""


class TooLarge(BadRequest):
    """The body or the batch is over the server's limit."""


class Forbidden(TarryError):
    """The server wants other credentials."""


class NotFound(TarryError):
    """There is no such message, topic, group or claim."""


class Conflict(TarryError):
    """What is there does not go together with the request."""


class TooLate(Conflict):
    """The message was handed to the stream before the cancel or the reschedule came."""


class Cancelled(Conflict):
    """The message was cancelled before, so that it cannot be rescheduled, or its timer be set at its revision."""


class Suppressed(Cancelled):
    """Its guard has ended the message, so that it cannot be rescheduled."""


class Changed(Conflict):
    """The timer is not at the revision that was asked for; `problem["revision"]` is what it is at."""


class LeaseLost(Conflict):
    """The claim's lease is over, or the message is not in its hands: nothing was done."""


class IdempotencyConflict(TarryError):
    """The idempotency key was used before with another request."""


class Unsupported(TarryError):
    """The contract names it, and this server cannot do it yet."""


class Unavailable(TarryError):
    """The server is away, overloaded or failing. What was asked may have been done all the same."""


_BY_STATUS: dict[int, type[TarryError]] = {
    400: BadRequest,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    412: Changed,
    413: TooLarge,
    422: IdempotencyConflict,
    429: Unavailable,
    500: Unavailable,
    501: Unsupported,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}
_BY_RESULT: dict[str, type[Conflict]] = {
    "too_late": TooLate,
    "cancelled": Cancelled,
    "suppressed": Suppressed,
    "lease_lost": LeaseLost,
}


def refusal(status: int, problem: Mapping[str, Any], retry_after: float | None = None) -> TarryError:
    """The error for an answer that is not a success."""
    kind = _BY_STATUS.get(status, TarryError)
    if status == 409:
        kind = _BY_RESULT.get(str(problem.get("result")), Conflict)
    text = str(problem.get("detail") or problem.get("title") or f"the server answered {status}")
    if str(problem.get("type")).endswith("/not-built"):
        kind = Unsupported
    return kind(text, status=status, problem=problem, retry_after=retry_after)
