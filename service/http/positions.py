"""The calls that move a group (seek) and deliver a range of the stream to it once more (replay)."""

from functools import partial
from hashlib import sha256

import msgspec

from ...store.operating.replaying import Range
from ...store.records import Group, Queue
from ...store.stream.placing import queues_there
from ...store.stream.positions import Position
from . import answers
from .asgi import Response
from .call import Call, answer
from .problems import Problem, bad_field
from .requests import Replay, Seek

_MOST = (1 << 63) - 1


async def seek(call: Call) -> Response:
    """Move a group to another position.

    Its open claims are closed first.
    """
    request = await call.read(Seek)
    position = _target(call, request)
    number = None if isinstance(request.to, str) else request.to.queue
    group = await call.group()
    group, queues = await _queues(call, group, number, "/to/queue", needed=position.at == "offset")
    moved = await call.node.operations.seek(group, queues, position, dry_run=request.dry_run)
    return answer(answers.SeekAnswer(queues=[answers.PositionAnswer(queue=q, offset=o) for q, o in moved]))


def _target(call: Call, request: Seek) -> Position:
    to = request.to
    if isinstance(to, str):
        if to in ("earliest", "latest"):
            return Position("earliest" if to == "earliest" else "latest")
        raise bad_field("/to", 'say "earliest", "latest", {"offset": ..., "queue": ...} or {"time": ...}')
    if (to.offset is None) == (to.time is None):
        raise bad_field("/to", "say offset or time, one of them")
    if to.time is not None:
        return Position("time", call.time(to.time, "/to/time"))
    return _offset(to.offset or 0, "/to/offset")


def _offset(offset: int, pointer: str) -> Position:
    if not 0 <= offset <= _MOST:
        raise bad_field(pointer, f"an offset is a whole number from 0 to {_MOST}")
    return Position("offset", offset)


async def _queues(
    call: Call, group: Group, number: int | None, pointer: str, *, needed: bool
) -> tuple[Group, tuple[Queue, ...] | None]:
    """The group as it is now, and its topic's queue of this number; None means all queues, which are looked up when the
    work is done. If a number is `needed`, it may still be left out of a topic with one queue."""
    if number is None and not needed:
        return group, None
    if number is None or number >= len(group.topic.queues):  # another server may have given the topic more
        await call.node.directory.read_topic(group.topic.name)
        group = await call.group()
    topic = group.topic
    if number is None and len(topic.queues) > 1:
        raise bad_field(pointer, f"an offset is of one queue: say which, topic {topic.name!r} has several")
    queues = tuple(queue for queue in topic.queues if queue.number == (number or 0))
    if not queues:
        raise Problem("unknown-queue", f"topic {topic.name!r} has {queues_there(len(topic.queues))}")
    return group, queues


async def replay(call: Call) -> Response:
    """Replay a range of the stream for one group."""
    request = await call.read(Replay)
    begin = _place(call, request.from_, "/from", "earliest")
    end = Position("latest") if request.to is None else _place(call, request.to, "/to", "latest")
    group = await call.group()
    needed = "offset" in (begin.at, end.at)
    group, queues = await _queues(call, group, request.queue, "/queue", needed=needed)
    named = request.name is not None
    if named and (request.queue is None or {begin.at, end.at} != {"offset"}):
        raise bad_field("/name", "it goes with a queue, and with offsets from and to")
    asked = msgspec.json.encode([request.name] if named else [request.from_, request.to, request.queue])
    range_ = Range(begin, end, queues, sha256(asked).digest(), named)
    worked = await call.unless_gone(partial(call.node.operations.replay, group, range_, dry_run=request.dry_run))
    return answer(answers.ReplayAnswer(replayed=worked.count, more=worked.more))


def _place(call: Call, value: int | str, pointer: str, word: str) -> Position:
    if isinstance(value, int):
        return _offset(value, pointer)
    if value == word:
        return Position("earliest" if word == "earliest" else "latest")
    return Position("time", call.time(value, pointer, or_else=f'"{word}", an offset or '))
