"""The errors of calls: flat, under one base. Those from a server's problem are made in one place, `refusal`."""

from collections.abc import Callable, Mapping
from typing import Any


class TarryError(Exception):
    """The call did not succeed. `status`, `problem` and `errors` are the server's, if it answered."""

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
        """A try of the call whose answer was lost may have done what was asked. A fail that is tried again after such a
        try raises `LeaseLost` either way: this client does not hold the messages any more, and they come again."""


OnFailure = Callable[[str, Any, TarryError], object]
"""Called with topic, body (a list of bodies for a batch) and error when a publish has finally failed."""


class BadRequest(TarryError):
    """The server refused the request as invalid; `errors` names the fields."""


class TooLarge(BadRequest):
    """The body or the batch is over the server's limit."""


class Forbidden(TarryError):
    """The credentials are missing, or do not allow the call."""


class NotFound(TarryError):
    """There is no such message, topic, group or claim."""


class Conflict(TarryError):
    """The request conflicts with what the server has."""


class TooLate(Conflict):
    """The message was handed to the stream before the cancel or the reschedule came."""


class Cancelled(Conflict):
    """The message was cancelled before, so it cannot be rescheduled, nor its timer be set at its revision."""


class Suppressed(Cancelled):
    """The message's guard has ended it, so it cannot be rescheduled."""


class Changed(Conflict):
    """The timer or schedule is at another revision than was asked for; `problem["revision"]` is its current one."""


class LeaseLost(Conflict):
    """The claim's lease is over, or the claim does not hold the message: nothing was done."""


class IdempotencyConflict(TarryError):
    """The idempotency key was used before with another request."""


class Unsupported(TarryError):
    """The API has this call, but this server cannot do it yet."""


class Unavailable(TarryError):
    """The server is away, overloaded or failing. The request may have been carried out all the same."""


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
