"""The calls about timers: at most one waiting message for each key of a topic."""

from msgspec import UNSET

from ...store.looking import timer_pages
from ...store.records import Topic
from ...store.timers import keyed
from ...store.timers.keyed import Standing, Wish
from . import answers, rendering
from .asgi import Response
from .call import Call, answer
from .drafts import SLACK, answered_before, check_single, fingerprint, guards_of
from .messages import PAGE, ended
from .names import wrong_label
from .problems import Problem, bad_cursor, bad_field, idempotency_conflict
from .publishing import idempotency_key
from .reading import decode, read_body
from .requests import PutTimer
from .revisions import condition, revision_of, tagged, unmatched


async def put_timer(call: Call) -> Response:
    """Set the timer of a key: its one message that waits.

    The same request, repeated with its idempotency key even after the timer has fired, gets the same answer.
    """
    name, key = call.part("topic"), call.part("key")
    data = await read_body(call.request, call.settings.max_batch_bytes + SLACK)
    request = decode(data, PutTimer)
    longest = _longest(call, request)
    if request.delay is None and request.deliver_at is None:
        raise bad_field("/delay", "say delay or deliver_at: a timer waits")
    named = idempotency_key(call, request.idempotency_key)
    mark = b"" if named is None else fingerprint(f"{name}\n{key}", data)
    try:
        checked = check_single(call, request)
    except Problem:
        if named is None or not await answered_before(call, name, {(named, mark)}):
            raise
        checked = check_single(call, request, again=True)
    revision, absent = condition(call)
    await call.node.guards.admit(guards_of([checked]))
    topic = await call.node.directory.topic(name)
    draft = checked.placed(call.node.intake, topic)
    wish = Wish(topic, key, draft, request.mode or "replace", longest, revision, absent, named, mark)
    done = await call.node.timers.do(wish)
    if done.result not in ("made", "replaced", "kept"):
        raise _no(call, done)
    load, late_by = rendering.outlook(call.node.shaping, done.due) if done.due else (UNSET, UNSET)
    said = answers.TimerAnswer.of(
        done,
        id=str(done.id),
        key=key,
        state="scheduled",
        replaced=UNSET if done.replaced is None else str(done.replaced),
        kept=done.result == "kept",
        load=load,
        late_by=late_by,
    )
    return tagged(answer(said, 201 if done.result == "made" else 200), done.revision)


async def get_timer(call: Call) -> Response:
    """Get the timer of a key, and the state of its message.

    When its message waits no more, the timer is remembered for as long as idempotency keys are.
    """
    key = call.part("key")
    topic = await call.topic()
    found = await call.node.store.read(keyed.find_timer, topic, key)
    if found is None:
        raise _unknown(call)
    return tagged(answer(_told(key, found)), found.revision)


async def list_timers(call: Call) -> Response:
    """List the timers of a topic, by key.

    A page of them; timers that are still remembered though their message waits no more are included.
    """
    limit = call.number(call.query.get("max"), "max", default=PAGE, low=1, high=1000)
    after = call.query.get("cursor") or ""
    if after and wrong_label(after, call.settings.max_key):
        raise bad_cursor()
    page = await call.node.store.read(timer_pages.find, await call.topic(), after, limit)
    return answer(answers.TimerPage(timers=[_told(*one) for one in page.timers], cursor=page.after))


def _told(key: str, found: Standing) -> answers.TimerAnswer:
    return answers.TimerAnswer.of(found, id=str(found.id), key=key)


async def cancel_timer(call: Call) -> Response:
    """Cancel the waiting message of a key's timer.

    The answer is exact: either it is cancelled and will not be delivered, or it was too late.
    """
    revision = revision_of(call)
    topic: Topic = await call.topic()
    done = await call.node.timers.do(Wish(topic, call.part("key"), revision=revision))
    if done.result not in ("cancelled", "suppressed"):
        raise _no(call, done)
    return answer(answers.CancelAnswer(result=done.result))


def _longest(call: Call, request: PutTimer) -> int | None:
    if request.max_wait is None:
        return None
    if request.mode != "debounce":
        raise bad_field("/max_wait", 'it goes with "mode": "debounce"')
    return call.duration(request.max_wait, "/max_wait", low=1, high=call.settings.max_delay)


def _unknown(call: Call) -> Problem:
    return Problem("unknown-timer", f"topic {call.part('topic')!r} has no timer {call.part('key')!r}")


def _no(call: Call, done: keyed.Answer) -> Problem:
    if done.result == "unmatched":
        if not done.id:
            return unmatched("there is no timer of this key", None)
        return unmatched(f"the timer is at revision {done.revision}", done.revision)
    if done.result == "conflict":
        return idempotency_conflict()
    place = None if done.queue is None or done.offset is None else (done.queue, done.offset)
    return ended(done.result, place) or _unknown(call)
