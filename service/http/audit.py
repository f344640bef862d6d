"""What operators do, in the log: a line for each such call, whether it was done or refused."""

from collections.abc import Awaitable, Callable

import structlog

from .asgi import Response
from .call import Call
from .problems import problem_of
from .reading import ClientGone

log = structlog.get_logger()

_FAILED = 500
_GONE = 499


async def audited(call: Call, operation: str, act: Callable[[], Awaitable[Response]]) -> Response:
    """The answer to a call, told in the log."""
    status, outcome = _FAILED, "internal"
    try:
        response = await act()
        status, outcome = response.status, "done"
        return response
    except ClientGone:
        status, outcome = _GONE, "client-gone"  # what was done until then stays done
        raise
    except Exception as error:
        problem = problem_of(error)
        if problem is None:
            raise
        status, outcome = problem.status, problem.kind
        raise problem from error
    finally:
        parts, query = call.request.parts, call.request.query
        told = {name: parts[name] for name in ("topic", "group") if name in parts} | dict(query)
        client = call.request.scope.get("client")
        log.info(
            "operated",
            operation=operation,
            key=call.holder.name or None,
            client=client[0] if client else None,
            target=told,
            status=status,
            outcome=outcome,
        )
