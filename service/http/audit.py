"""The audit log: a line for each call that needs `operate` and each write from a browser, done or refused.

Anybody can cause refusals as often as he likes, without a key from anywhere. So their lines are limited per minute,
separately for each key and for all requests without one; the others are counted.
"""

from collections.abc import Awaitable, Callable

import msgspec
import structlog
import trio
from attrs import define, field

from .asgi import Request, Response
from .problems import problem_of
from .reading import ClientGone
from .routes import Operation

log = structlog.get_logger()

_FAILED = 500
_FORBIDDEN = 403
_GONE = 499
_REFUSED = 20
"""Lines a minute about refusals, for each key and for all requests without one."""
_MINUTE = 60.0
_SHOWN = 256
"""Characters that are logged of a value of the path or the query."""


class _Answer(msgspec.Struct):
    id: str


_read_answer = msgspec.json.Decoder(_Answer).decode


@define
class _Minute:
    """The refusals logged in the current minute."""

    began: float
    told: int = 0
    untold: int = 0
    """Refusals that were not logged since the last one that was."""


@define(eq=False)
class Audit:
    """Logs audited calls: `told` wraps each of them."""

    _minutes: dict[str | None, _Minute] = field(factory=dict[str | None, _Minute], init=False)
    """By the key's name; None for all requests without a key."""

    async def told(self, request: Request, operation: Operation, act: Callable[[], Awaitable[Response]]) -> Response:
        """Makes the call and returns its answer, and logs what became of it."""
        status, outcome, message = _FAILED, "internal", None
        try:
            response = await act()
            status, outcome, message = response.status, "done", _message_of(response)
            return response
        except ClientGone:
            status, outcome = _GONE, "client-gone"  # any effect it had by then stays
            raise
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            status, outcome = problem.status, problem.kind
            raise problem from error
        finally:
            self._tell(request, operation, status, outcome, message)

    def _tell(self, request: Request, operation: Operation, status: int, outcome: str, message: str | None) -> None:
        more: dict[str, int | str] = {}
        if message is not None and message != request.parts.get("id"):
            more["message"] = message
        if request.key is None or status == _FORBIDDEN:
            untold = self._refused(request.key)
            if untold is None:
                return
            if untold:
                more["untold"] = untold
        known = (request.parts, ("topic", "group", "name", "id")), (request.query, operation.parameters)
        client = request.scope.get("client")
        log.info(
            "operated",
            operation=operation.name,
            key=request.key or None,
            client=client[0] if client else None,
            target={name: values[name][:_SHOWN] for values, names in known for name in names if name in values},
            status=status,
            outcome=outcome,
            **more,
        )

    def _refused(self, key: str | None) -> int | None:
        """How many refusals before this one were not logged; None if this one is not to be logged either."""
        now = trio.current_time()
        minute = self._minutes.setdefault(key, _Minute(now))
        if now - minute.began >= _MINUTE:
            minute.began, minute.told = now, 0
        if minute.told == _REFUSED:
            minute.untold += 1
            return None
        minute.told += 1
        untold, minute.untold = minute.untold, 0
        return untold


def _message_of(response: Response) -> str | None:
    """The id of the message that the answer is about, such as one that was published or rescheduled."""
    try:
        return _read_answer(response.body).id
    except msgspec.DecodeError:
        return None  # it has none, or is about many
