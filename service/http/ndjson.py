"""Messages as lines, each published for itself and with an answer of its own, in a request of any length.

Of its three tasks one reads lines and checks them, one publishes what was read while the lines before were written, and
one sends the answers. None of them keeps more than a little. What is published together is asked for together, so that
the lines of an ordering key are written in their order.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
import trio
from attrs import define, field

from ...store.records import Conflict, Publication, Receipt, Topic
from ..errors import ServiceError
from . import rendering
from .answers import Answer, LineFault
from .asgi import Response, Stream
from .call import Call
from .drafts import SLACK, Checked, check_single, fingerprint
from .lines import Line, Lines
from .names import wrong_label
from .passage import Passage
from .problems import Problem, bad_field, idempotency_conflict, problem_of, unexpected
from .reading import check_coding, decode
from .requests import Message
from .server.ports import TAKEN, Taken

MEDIA_TYPE = "application/x-ndjson"

_TOGETHER = 512 << 10
"""Bytes of lines that wait while those before them are written."""
_WEIGHT = 300
"""A line counts as so many beside its own."""
_AT_ONCE = 128
"""Lines that are checked before others have their turn."""
_UNREAD = 1 << 20
"""Bytes of answers that wait for the client to take them; then nothing more is read."""
_REMEMBERED = 10_000
"""Ordering keys of which a message failed; when there are more, every one counts as such."""
_TROUBLE = 429
"""The status, and those above it, of what failed for the store's or the server's sake."""

_decode = msgspec.json.Decoder(Message).decode
_encode = msgspec.json.Encoder().encode_lines


def publish_lines(call: Call) -> Response:
    """The answer, which reads the request while it is sent. Raises a `Problem` when nothing of it can be read."""
    _ = call.node  # raises
    check_coding(call.request)
    if call.request.headers(b"idempotency-key"):
        raise Problem("bad-request", "of many lines each has its own idempotency_key: leave Idempotency-Key out")
    return Stream(_Publishing(call).run, MEDIA_TYPE)


@define
class _Read:
    """A line that was read: what is to be published, or why not."""

    number: int
    text: bytes
    found: Checked | Problem


@define(eq=False)
class _Publishing:
    """One request."""

    _call: Call
    _lines: Lines = field(init=False)
    _held: int = field(default=0, init=False)
    """Bytes of lines that are read and have no answer yet."""
    _checked: Passage[_Read] = field(factory=lambda: Passage(_TOGETHER), init=False)
    _answered: Passage[bytes] = field(factory=lambda: Passage(_UNREAD), init=False)
    _failed: dict[str, None] = field(factory=dict[str, None], init=False)
    """Ordering keys of which a message failed, so that what comes behind it must not go before it."""

    _last: tuple[Exception, Problem] | None = field(default=None, init=False)
    """The last error."""

    def __attrs_post_init__(self) -> None:
        limit = self._call.settings.max_body
        self._lines = Lines(limit + limit // 2 + SLACK)  # in base64 it is a third longer

    async def run(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Until all lines are answered; `send` sends a piece of the answer."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            nursery.start_soon(self._publish_all)
            while pieces := await self._answered.take():
                await send(b"".join(pieces))

    # Reading

    async def _read(self) -> None:
        try:
            await self._read_pieces()
        except (Problem, ServiceError) as error:
            problem = problem_of(error) or unexpected(error, self._call.request.route)
            await self._checked.put([_Read(self._lines.number + 1, b"", problem)], _WEIGHT)
        self._checked.end()

    async def _read_pieces(self) -> None:
        lines, request = self._lines, self._call.request
        taken: Taken = request.scope.get(TAKEN) or (lambda _: None)
        more = moved_on = True
        while more:
            if moved_on:
                taken(self._held + lines.kept)
            message = await request.receive()
            if message["type"] == "http.disconnect":
                return  # what has begun is nothing that the client has sent
            last = lines.number
            more = message.get("more_body", False)
            found = lines.feed(message.get("body", b""))
            if not more:
                found += lines.end()
            for start in range(0, len(found), _AT_ONCE):
                await self._hand_on(found[start : start + _AT_ONCE])
            moved_on = lines.number > last or lines.skips

    async def _hand_on(self, lines: Sequence[Line]) -> None:
        read = [self._check(number, text) for number, text in lines]
        weight = sum([len(one.text) for one in read])
        self._held += weight
        await self._checked.put(read, weight + _WEIGHT * len(read))
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
            return _Read(number, text, check_single(self._call, message))
        except Problem as problem:
            return _Read(number, text, problem)

    # Publishing

    async def _publish_all(self) -> None:
        while read := await self._checked.take():
            answers = await self._publish(read)
            self._held -= sum([len(one.text) for one in read])
            piece = _encode(answers)
            await self._answered.put([piece], len(piece))
        self._answered.end()

    async def _publish(self, read: Sequence[_Read]) -> list[Answer]:
        """The answers to these lines."""
        known = [self._known(one) for one in read]
        wanted = [
            (place, one, one.found)
            for place, one in enumerate(read)
            if known[place] is None and isinstance(one.found, Checked)
        ]
        outcomes: dict[int, Answer | Problem] = {place: one for place, one in enumerate(known) if one is not None}
        if wanted:
            asked = await self._ask([(one, checked) for _, one, checked in wanted])
            outcomes |= zip([place for place, _, _ in wanted], asked, strict=True)
        return [self._told(one, outcomes[place]) for place, one in enumerate(read)]

    def _known(self, one: _Read) -> Problem | None:
        """What is wrong with it before it is asked for."""
        if isinstance(one.found, Problem):
            return one.found
        key = one.found.message.ordering_key
        if key is None or not (key in self._failed or len(self._failed) > _REMEMBERED):
            return None
        detail = "a message of its ordering key failed before it: send both again, in their order"
        return Problem("held-back", detail, executed=False)

    async def _ask(self, lines: Sequence[tuple[_Read, Checked]]) -> list[Answer | Problem]:
        name = self._call.part("topic")
        try:
            topic = await self._call.node.directory.topic(name)
            wanted = [self._publication(topic, one, checked) for one, checked in lines]
            publications = [one for one in wanted if isinstance(one, Publication)]
            verdicts = iter(await self._call.node.intake.publish_each(publications))
        except Exception as error:
            return [self._problem(error)] * len(lines)
        return [one if isinstance(one, Problem) else self._answer(topic, next(verdicts)) for one in wanted]

    def _publication(self, topic: Topic, one: _Read, checked: Checked) -> Publication | Problem:
        key = checked.message.idempotency_key
        try:
            draft = checked.placed(self._call, topic)
        except Problem as problem:
            return problem
        return Publication((draft,), key, b"" if key is None else fingerprint(topic.name, one.text))

    def _answer(self, topic: Topic, verdict: list[Receipt] | Conflict | Exception) -> Answer | Problem:
        if isinstance(verdict, list):
            return rendering.receipt(topic, verdict[0])
        return idempotency_conflict() if isinstance(verdict, Conflict) else self._problem(verdict)

    def _problem(self, error: Exception) -> Problem:
        """Made once for an error that many lines have in common."""
        if self._last is None or self._last[0] is not error:
            self._last = error, problem_of(error) or unexpected(error, self._call.request.route)
        return self._last[1]

    def _told(self, one: _Read, outcome: Answer | Problem) -> Answer:
        if not isinstance(outcome, Problem):
            return outcome
        if outcome.status >= _TROUBLE and isinstance(one.found, Checked) and len(self._failed) <= _REMEMBERED:
            key = one.found.message.ordering_key
            if key is not None:
                self._failed[key] = None
        return LineFault(error=outcome.body, line=one.number)
