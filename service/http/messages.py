"""The calls about single messages: look, cancel, reschedule, erase; and cancelling all messages of a key."""

from ...store.looking import tracing
from ...store.operating import erasing
from ...store.records import Found, Verdict
from ..durations import format_time
from . import answers, rendering
from .asgi import Response
from .call import Call, answer
from .names import parse_id, wrong_label
from .problems import Problem, bad_cursor, bad_field, bad_parameter
from .requests import Reschedule

PAGE = 100


async def get_message(call: Call) -> Response:
    """Get a message and its life."""
    found = await call.node.store.read(tracing.find_message, call.message_id)
    if found is None or not call.holder.scopes.reach("read", found.topic):
        raise call.unknown_message()
    return answer(rendering.found(found, why_held(call, found)))


def why_held(call: Call, found: Found) -> str | None:
    """Why its guard holds the message. The database's own error text is shown only to a key that may read
    everything."""
    why = call.node.guards.why_held(found)
    return why if why is None or call.holder.scopes.reach_all("read") else "its guard has not answered"


def cursor(text: str | None) -> int:
    """The id after which the page begins."""
    after = 0 if text is None else parse_id(text)
    if after is None:
        raise bad_cursor()
    return after


async def cancel(call: Call) -> Response:
    """Cancel a message that still waits.

    The answer is exact: either it is cancelled and will not be delivered, or it was too late.
    """
    verdict = await call.node.intake.cancel(await call.own_message("publish"))
    if verdict.result not in ("cancelled", "suppressed"):
        raise _no(call, verdict)
    return answer(answers.CancelAnswer(result=verdict.result))


async def cancel_labelled(call: Call) -> Response:
    """Cancel all messages of a key that still wait, that of its timer among them.

    The answer is exact for each message. If the call is interrupted, repeat it to finish it.
    """
    key = call.query.get("key")
    if key is None:
        raise bad_parameter("key", "it is required")
    if wrong := wrong_label(key, call.settings.max_key):
        raise bad_parameter("key", wrong)
    topic = await call.topic()
    cancelled, too_late = await call.node.intake.cancel_labelled(topic, key)
    return answer(answers.LabelledAnswer(cancelled=cancelled, too_late=too_late))


async def reschedule(call: Call) -> Response:
    """Give a message that still waits another time."""
    id_ = await call.own_message("publish")
    request = await call.read(Reschedule)
    if request.delay is None and request.deliver_at is None:
        raise bad_field("/delay", "say delay or deliver_at")
    at = call.deliver_at(request.delay, request.deliver_at)
    verdict = await call.node.intake.reschedule(id_, call.node.clock.now() if at is None else at)
    if verdict.result == "expires" and verdict.expires_at is not None:
        field = "/delay" if request.deliver_at is None else "/deliver_at"
        raise bad_field(field, f"the message expires at {format_time(verdict.expires_at)}: say an earlier time")
    if verdict.result != "rescheduled" or verdict.deliver_at is None:
        raise _no(call, verdict)
    return answer(answers.RescheduleAnswer(id=str(id_), deliver_at=format_time(verdict.deliver_at)))


async def erase(call: Call) -> Response:
    """Erase the content of a message.

    Its body, its headers and the reasons of its failed attempts are erased; its life stays.
    """
    id_, scopes = call.message_id, call.holder.scopes
    topic = await call.node.store.read(erasing.topic_of, id_)
    if not (scopes.reach_all("operate") if topic is None else scopes.reach("operate", topic)):
        raise call.unknown_message()
    erasure = await call.node.operations.erase(id_)
    if erasure == "waiting":
        detail = "it waits for its time, and nobody has it: cancel it first, and then erase it"
        raise Problem("still-waits", detail, result="waiting", executed=False)
    if erasure == "unknown":
        raise call.unknown_message()
    return answer(rendering.erasure(erasure), 200 if erasure.known else 202)


def _no(call: Call, verdict: Verdict) -> Problem:
    return ended(verdict.result) or call.unknown_message()


def ended(result: str, place: tuple[int, int] | None = None) -> Problem | None:
    """The problem with a message that has had its end, or is in the stream, at this place; None for any other."""
    if result == "too_late":
        return Problem("too-late", "the message had been handed to the stream", result=result, place=place)
    if result == "cancelled":
        return Problem("cancelled", "the message was cancelled before", result=result)
    if result == "suppressed":
        return Problem("suppressed", "the message was suppressed before: its guard said no", result=result)
    return None
