"""Publishes messages that come as lines (NDJSON), each on its own and with its own answer, in a request of any length.

It runs three tasks: the first reads and checks lines, the second publishes them while earlier lines are being written,
and the third sends the answers. Each keeps only a bounded amount in memory. Lines that were
read together are published together; a batch that shares an ordering key with one under way waits for its end, so that
the lines of an ordering key are written in order.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import chain, islice

import msgspec
import trio
from attrs import define, field

from ...store.errors import StoreError
from ...store.records import Conflict, Publication, Receipt, Topic
from ...store.stream import idempotency
from ..engine.publish.intake import Intake
from ..errors import Overloaded, ServiceError
from . import rendering
from .access import revoked
from .answers import Answer, LineFault
from .asgi import Response, Stream
from .beginning import MOST, Beginning
from .call import Call
from .drafts import Checked, Faults, answered_before, check, fingerprint, guards_of, longest, windows
from .lines import Line, Lines
from .names import wrong_label
from .passage import Passage
from .problems import Problem, bad_field, idempotency_conflict, problem_of, unexpected
from .reading import check_coding, decode
from .requests import Message
from .server.ports import TAKEN, Taken
from .server.ports import Message as Event

MEDIA_TYPE = "application/x-ndjson"

_TOGETHER = 512 << 10
"""Bytes of lines that wait while earlier lines are being written."""
_FLYING = 2
"""Batches at a time: while the store writes one, the next is prepared."""
_WEIGHT = 300
"""Bytes that a line counts in addition to its own."""
_BAD_WEIGHT = 1500
"""The same for a line that is not a valid message: its faults take more memory than a message."""
_AT_ONCE = 128
"""Lines that are checked before other tasks have their turn, and that are answered in one piece."""
_UNREAD = 512 << 10
"""Bytes of answers that wait while as many are on their way to the client; beyond that no more lines are read."""
_REMEMBERED = 10_000
"""The most ordering keys with a failed message that are kept; beyond that every key is treated as one."""
_TROUBLE = 429
"""The lowest status of failures that are the store's or the server's fault."""

_decode = msgspec.json.Decoder(Message).decode
_encode = msgspec.json.Encoder().encode_lines


def publish_lines(call: Call) -> Response:
    """The answer, which reads the request while it is being sent. Raises a `Problem` if the request cannot be read at
    all."""
    _ = call.node  # raises
    check_coding(call.request)
    if call.request.headers(b"idempotency-key"):
        raise Problem("bad-request", "of many lines each has its own idempotency_key: leave Idempotency-Key out")
    return Stream(_Publishing(call).run, MEDIA_TYPE)


class _Read(msgspec.Struct, frozen=True):
    """A line that was read: the message to be published, or the problem with it."""

    number: int
    text: bytes
    found: Checked | Problem
    message: Message | None = None
    """The message, if it has a fault and an idempotency key: it may have been accepted before."""


@define(eq=False)
class _Flight:
    """Lines that are being published together."""

    read: Sequence[_Read]
    topic: Topic | Problem | None
    keys: set[str]
    """The ordering keys of these lines."""
    before: trio.Event
    """Set when the lines before these have been answered."""
    over: trio.Event = field(factory=trio.Event)
    """Set when these lines have been answered."""

    def must_follow(self, other: "_Flight") -> bool:
        """Whether lines of both may have to keep an order. In an ordered topic lines without a key are ordered, too."""
        return not self.keys.isdisjoint(other.keys) or (isinstance(self.topic, Topic) and self.topic.ordered)


@define(eq=False)
class _Publishing:
    _call: Call
    _lines: Lines = field(init=False)
    _held: int = field(default=0, init=False)
    """Bytes of lines that were read and are not answered yet."""
    _checked: Passage[_Read] = field(factory=lambda: Passage(_TOGETHER), init=False)
    _answered: Passage[bytes] = field(factory=lambda: Passage(_UNREAD), init=False)
    _beginning: Beginning = field(init=False)
    _failed: dict[str, None] = field(factory=dict[str, None], init=False)
    """Ordering keys of which a message failed: later messages of the key must not be published before it."""

    _flying: list[_Flight] = field(factory=list[_Flight], init=False)
    _faults: Faults = field(factory=Faults, init=False)
    """The faults of the line that is being checked."""
    _last: tuple[Exception, Problem] | None = field(default=None, init=False)
    """The last error, and its problem."""

    def __attrs_post_init__(self) -> None:
        self._lines = Lines(longest(self._call.settings))
        self._beginning = Beginning(MOST if self._call.request.headers(b"content-length") else 0)
        if not self._beginning.begun:
            self._answered.limit = MOST

    async def run(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Runs until all lines are answered; `send` sends a piece of the answer."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            nursery.start_soon(self._publish_all)
            await self._beginning.wait()
            self._answered.limit = _UNREAD
            while pieces := await self._answered.take():
                for piece in pieces:
                    self._call.request.credit.free(len(piece))
                    await send(piece)

    # Reading

    async def _read(self) -> None:
        try:
            await self._read_pieces()
        except (Problem, ServiceError) as error:
            problem = problem_of(error) or unexpected(error, self._call.request.route)
            await self._checked.put([_Read(self._lines.number + 1, b"", problem)], _WEIGHT)
        self._beginning.begin()
        self._checked.end()

    async def _read_pieces(self) -> None:
        lines = self._lines
        taken: Taken = self._call.request.scope.get(TAKEN) or (lambda _: None)
        more = moved_on = True
        while more:
            if moved_on:
                taken(self._held + lines.kept)
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return  # an incomplete line is not one that the client has sent
            last = lines.number
            more = message.get("more_body", False)
            found = chain(lines.feed(message.get("body", b"")), () if more else lines.end())
            while some := list(islice(found, _AT_ONCE)):
                await self._hand_on(some)
            moved_on = lines.number > last or lines.skips

    async def _receive(self) -> Event:
        """Receives the next piece of the request. Raises a `Problem` if the key is revoked meanwhile."""
        holder = self._call.holder
        with trio.CancelScope() as waiting:
            if holder.revoked:
                waiting.cancel()
            holder.waiting.add(waiting.cancel)
            self._beginning.ask()
            try:
                message = await self._call.request.receive()
            finally:
                self._beginning.come()
                holder.waiting.discard(waiting.cancel)
            if not holder.revoked:
                return message
        raise revoked()

    async def _hand_on(self, lines: Sequence[Line]) -> None:
        read = [self._check(number, text) for number, text in lines]
        held = sum([len(one.text) for one in read])
        self._held += held
        weight = held + sum([_BAD_WEIGHT if isinstance(one.found, Problem) else _WEIGHT for one in read])
        await self._checked.put(read, weight)
        await trio.lowlevel.checkpoint()

    def _check(self, number: int, text: bytes | None) -> _Read:
        if text is None:
            detail = f"a line may have {self._lines.limit} bytes at most"
            return _Read(number, b"", Problem("too-large", detail, executed=False))
        try:
            try:
                message = _decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                message = decode(text, Message)  # which says what is wrong
            key = message.idempotency_key
            if key is not None and (wrong := wrong_label(key, self._call.settings.max_key)):
                raise bad_field("/idempotency_key", wrong)
        except Problem as problem:
            return _Read(number, b"", _bare(problem))
        try:
            return _Read(number, text, self._check_message(message))
        except Problem as problem:
            return _Read(number, b"", _bare(problem)) if key is None else _Read(number, text, _bare(problem), message)

    def _check_message(self, message: Message) -> Checked:
        checked = check(self._call, message, "", self._faults)
        if checked is None:
            faults, self._faults = self._faults, Faults()
            raise faults.problem()
        return checked

    async def _again(self, read: Sequence[_Read]) -> Sequence[_Read]:
        """Replaces the problem of a line by its message if the line was accepted before, when its times were still
        valid."""
        asked = {self._request(one) for one in read if one.message is not None}
        if not asked:
            return read
        try:
            known = await answered_before(self._call, self._call.part("topic"), asked)
        except Exception as error:
            problem = self._problem(error)
            return [one if one.message is None else _Read(one.number, one.text, problem) for one in read]
        return [self._taken(one, one.message) if one.message and self._request(one) in known else one for one in read]

    def _request(self, one: _Read) -> idempotency.Request:
        key = None if one.message is None else one.message.idempotency_key
        return key or "", fingerprint(self._call.part("topic"), one.text)

    def _taken(self, one: _Read, message: Message) -> _Read:
        checked = check(self._call, message, "", Faults(again=True))
        return one if checked is None else _Read(one.number, one.text, checked)

    # Publishing

    async def _publish_all(self) -> None:
        last = trio.Event()
        last.set()
        async with trio.open_nursery() as nursery:
            while taken := await self._checked.take():
                read = await self._again(taken)
                flight = _Flight(read, await self._topic(read), _ordering_keys(read), last)
                while any(flight.must_follow(other) for other in self._flying):
                    await self._flying[0].over.wait()
                self._flying.append(flight)
                self._checked.wait_for_more(True)
                await nursery.start(self._fly, flight)
                last = flight.over
                while len(self._flying) == _FLYING:
                    await self._flying[0].over.wait()
        self._answered.end()

    async def _fly(self, flight: _Flight, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        # The next flight starts only after this one has handed its lines over: nothing is awaited until then.
        task_status.started()
        answers = await self._publish(flight.topic, flight.read)
        self._held -= sum([len(one.text) for one in flight.read])
        await flight.before.wait()
        for start in range(0, len(answers), _AT_ONCE):
            piece = _encode(answers[start : start + _AT_ONCE])
            await self._hold(len(piece))
            await self._answered.put([piece], len(piece))
        self._flying.remove(flight)
        self._checked.wait_for_more(bool(self._flying))
        flight.over.set()

    async def _hold(self, size: int) -> None:
        """Counts bytes of answers against the client's credit. Raises `Overloaded`: nothing more is read, and the
        connection ends."""
        credit = self._call.request.credit
        self._beginning.hold(size)
        try:
            credit.hold(size)
        except Overloaded:
            if self._beginning.begun:
                raise
            self._beginning.begin()  # send first what is held back
            await self._answered.drained()
            credit.hold(size)

    async def _publish(self, topic: Topic | Problem | None, read: Sequence[_Read]) -> list[Answer]:
        node = self._call.node
        intake = node.intake
        if wanted := windows([one.found for one in read if isinstance(one.found, Checked)]):
            with suppress(StoreError):  # then the loads that are known already will do
                await node.shaping.learn(wanted)
        publications: list[Publication] = []
        problems: dict[int, Problem] = {}  # by number of the line
        refusal = await self._admit(read)
        for one in read:
            guarded = refusal is not None and isinstance(one.found, Checked) and one.found.message.guard is not None
            asked = refusal if refusal is not None and guarded else self._publication(intake, topic, one)
            if isinstance(asked, Problem):
                problems[one.number] = asked
            else:
                publications.append(asked)
        verdicts = iter(await self._verdicts(publications))
        return [self._answer(topic, one, problems.get(one.number) or next(verdicts)) for one in read]

    async def _admit(self, read: Sequence[_Read]) -> Problem | None:
        """The problem for which all lines that name a guard are refused, or None."""
        if not (names := guards_of(one.found for one in read if isinstance(one.found, Checked))):
            return None
        try:
            await self._call.node.guards.admit(names)
        except Exception as error:
            return self._problem(error)
        return None

    async def _topic(self, read: Sequence[_Read]) -> Topic | Problem | None:
        """The topic, or why there is none; None if no line is to be published: a topic is created with its first
        message."""
        if all(isinstance(one.found, Problem) for one in read):
            return None
        try:
            return await self._call.node.directory.topic(self._call.part("topic"))
        except Exception as error:
            return self._problem(error)

    def _publication(self, intake: Intake, topic: Topic | Problem | None, one: _Read) -> Publication | Problem:
        """The publication of a line, or the problem for which there is none."""
        found = one.found
        if isinstance(found, Problem):
            return found
        message = found.message
        if message.ordering_key is not None and self._is_held_back(message.ordering_key):
            detail = "a message of its ordering key failed before it: send both again, in their order"
            return Problem("held-back", detail, executed=False)
        if not isinstance(topic, Topic):
            return topic or bad_field("", "it is no message")
        try:
            draft = found.placed(intake, topic, self._call.node.shaping)
        except Problem as problem:
            return _bare(problem)
        key = message.idempotency_key
        return Publication((draft,), key, b"" if key is None else fingerprint(topic.name, one.text))

    def _is_held_back(self, ordering_key: str) -> bool:
        return ordering_key in self._failed or len(self._failed) > _REMEMBERED

    async def _verdicts(self, publications: Sequence[Publication]) -> Sequence[list[Receipt] | Conflict | Exception]:
        if not publications:
            return []
        try:
            return await self._call.node.intake.publish_each(publications)
        except Exception as error:
            return [error] * len(publications)

    def _answer(
        self, topic: Topic | Problem | None, one: _Read, verdict: list[Receipt] | Conflict | Exception
    ) -> Answer:
        if isinstance(verdict, list) and isinstance(topic, Topic):
            return rendering.receipt(topic, verdict[0], self._call.node.shaping)
        problem = self._problem(verdict) if isinstance(verdict, Exception) else idempotency_conflict()
        key = one.found.message.ordering_key if isinstance(one.found, Checked) else None
        if problem.status >= _TROUBLE and key is not None and len(self._failed) <= _REMEMBERED:
            self._failed[key] = None
        return LineFault(error=problem.body, line=one.number)

    def _problem(self, error: Exception) -> Problem:
        """The problem of an error, made once for all lines that share it."""
        if self._last is None or self._last[0] is not error:
            self._last = error, problem_of(error) or unexpected(error, self._call.request.route)
        return self._last[1]


def _ordering_keys(read: Sequence[_Read]) -> set[str]:
    keys = {one.found.message.ordering_key for one in read if isinstance(one.found, Checked)}
    return {key for key in keys if key is not None}


def _bare(problem: Problem) -> Problem:
    """The problem without its traceback: the frames would keep the line in memory until it is answered, and a frame
    that refers to the problem would keep both until the garbage collector runs, which is seldom here."""
    problem.__traceback__ = problem.__context__ = None
    return problem
