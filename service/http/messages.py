"""/v1/messages: look, find, cancel, reschedule."""

from ...store.looking import tracing
from ...store.records import Verdict
from ..durations import format_time
from . import answers, rendering
from .asgi import Response
from .call import Call, answer
from .names import parse_id
from .problems import Problem, bad_field, bad_parameter
from .requests import Reschedule

PAGE = 100


async def get_message(call: Call) -> Response:
    """A message and its life."""
    found = await call.node.store.read(tracing.find_message, call.message_id)
    if found is None or not call.holder.scopes.reach("read", found.topic):
        raise call.unknown_message()
    return answer(rendering.found(found))


def cursor(text: str | None) -> int:
    """Behind which id the page begins."""
    after = 0 if text is None else parse_id(text)
    if after is None:
        raise bad_parameter("cursor", "pass the cursor of the page before, as it is")
    return after


async def cancel(call: Call) -> Response:
    """Cancel a message that still waits.

    The verdict is exact.
    """
    verdict = await call.node.intake.cancel(await call.own_message("publish"))
    if verdict.result != "cancelled":
        raise _no(call, verdict)
    return answer(answers.CancelAnswer())


async def reschedule(call: Call) -> Response:
    """Give a message that still waits another time."""
    id_ = await call.own_message("publish")
    request = await call.read(Reschedule)
    if request.delay is None and request.deliver_at is None:
        raise bad_field("/delay", "say delay or deliver_at")
    at = call.deliver_at(request.delay, request.deliver_at)
    verdict = await call.node.intake.reschedule(id_, call.node.clock.now() if at is None else at)
    if verdict.result != "rescheduled" or verdict.deliver_at is None:
        raise _no(call, verdict)
    return answer(answers.RescheduleAnswer(id=str(id_), deliver_at=format_time(verdict.deliver_at)))


def _no(call: Call, verdict: Verdict) -> Exception:
    if verdict.result == "too_late":
        return Problem("too-late", "the message had been handed to the stream", result="too_late")
    if verdict.result == "cancelled":
        return Problem("cancelled", "the message was cancelled before", result="cancelled")
    return call.unknown_message()
