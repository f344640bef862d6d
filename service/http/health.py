"""The calls for probes, metrics scrapers and visitors: health, metrics, the welcome page, and kinds of problems."""

from ... import __version__
from ...store.errors import StoreError
from ..errors import Stopping
from ..metrics import CONTENT_TYPE
from . import answers
from .access import holder_of
from .asgi import Response
from .call import Call, answer
from .problems import KINDS, Check, Problem

_WARNINGS = {"durability", "host_clock", "rows", "sealing", "writers"}
"""Checks that may fail while the server stays ready: it works, but promises less than it should or goes by another
clock than the host's; or rows are damaged, or a queue stands still, or another server of the database takes writes,
too."""


async def live(call: Call) -> Response:
    """The process works.

    The store is not asked.
    """
    return answer(answers.Live())


async def ready(call: Call) -> Response:
    """The server can accept and deliver."""
    verbose = "verbose" in call.query and await _may_know(call)
    checks = [Check(name, ok=wrong is None, detail=wrong) for name, wrong in await call.lifecycle.readiness()]
    failed = [check for check in checks if not check.ok and check.check not in _WARNINGS]
    if failed:
        detail = "; ".join(f"{check.check}: {check.detail}" for check in failed) if verbose else "see /readyz?verbose"
        raise Problem("not-ready", detail, checks=checks if verbose else (), headers={"Retry-After": "1"})
    return answer(answers.Ready(ready=True, checks=checks) if verbose else answers.Ready(ready=True))


async def _may_know(call: Call) -> bool:
    """Whether the client may see the failed checks: where keys are required, only with a key."""
    try:
        await holder_of(call.request, call.lifecycle.node)
    except Stopping:
        return True  # there is nothing to tell yet
    except (Problem, StoreError):
        return False
    return True


async def metrics(call: Call) -> Response:
    """The metrics, for Prometheus."""
    return Response(await call.exposition(), media_type=CONTENT_TYPE)


async def welcome(call: Call) -> Response:
    """Where to find documentation, topics, health and metrics."""
    return answer(
        answers.Welcome(
            name="Tarry",
            version=__version__,
            docs="/docs",
            openapi="/openapi.json",
            topics="/v1/topics",
            ready="/readyz?verbose",
            metrics="/metrics",
        )
    )


async def kind_of_problem(call: Call) -> Response:
    """Explain a kind of problem."""
    kind = call.part("kind")
    if kind not in KINDS:
        raise Problem("not-found", "there is no such kind of problem")
    status, title = KINDS[kind]
    return answer(answers.KindOfProblem(type=f"/problems/{kind}", title=title, status=status))
