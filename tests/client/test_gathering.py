"""Who goes with whom in a request: order, limits, and an outcome for each. Random lives, against a list."""

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from tarry.client import NotFound, Unavailable
from tarry.client.calls import Call, Reply
from tarry.client.gathering import Distribution, Gathering, Turn
from tarry.client.shares import ALONE, MAX_BYTES, message, settlement
from tarry.client.transport import may_have_run

_SHARES = 4
_BYTES = 100


def turn_of(content: bytes = b"{}") -> Turn:
    """A message on its way."""
    share = message("/v1/topics/t/messages", content)
    assert share is not None
    return Turn(Call("POST", share.path, lambda reply: reply, content, share=share), share)


class Lives(RuleBasedStateMachine):
    """Callers come, send and give up in any order."""

    turns = Bundle("turns")

    @initialize()
    def begin(self) -> None:
        self.gathering: Gathering[Turn] = Gathering(_SHARES, _BYTES)
        self.waiting: list[Turn] = []
        self.sent: list[Turn] = []
        self.sender: Turn | None = None
        self.under_way = False

    @rule(target=turns, size=st.integers(0, _BYTES + 20))
    def come(self, size: int) -> Turn:
        turn = turn_of(b"1" * size)
        self.gathering.enter(turn)
        assert turn.sends is (self.sender is None), "who comes when nothing is under way sends, and nobody else"
        self.waiting.append(turn)
        if turn.sends:
            self.sender = turn
        return turn

    @precondition(lambda self: self.sender is not None and not self.under_way)
    @rule()
    def send(self) -> None:
        taken = self.gathering.take()
        assert taken == self.waiting[: len(taken)], "in their order"
        assert taken[0] is self.sender
        sizes = [turn.share.size + 1 for turn in taken]
        assert len(taken) <= _SHARES
        assert len(taken) == 1 or sum(sizes) <= _BYTES
        rest = self.waiting[len(taken) :]
        full = len(taken) == _SHARES or not rest or sum(sizes) + rest[0].share.size + 1 > _BYTES
        assert full, "who has room is not left behind"
        assert not set(taken) & set(self.sent), "nothing twice"
        self.sent += taken
        self.waiting = rest
        self.under_way = True

    @precondition(lambda self: self.under_way)
    @rule()
    def answer(self) -> None:
        assert self.sender is not None
        self.follow(self.gathering.leave(self.sender))

    @rule(turn=consumes(turns))
    def give_up(self, turn: Turn) -> None:
        """Unsent, under way, or with its outcome."""
        unsent = turn in self.waiting
        assert self.gathering.unsent(turn) is unsent
        if unsent:
            self.waiting.remove(turn)
        was_sender = turn is self.sender
        successor = self.gathering.leave(turn)
        if was_sender:
            self.follow(successor)
        else:
            assert successor is None

    def follow(self, successor: Turn | None) -> None:
        self.under_way = False
        self.sender = successor
        assert successor is (self.waiting[0] if self.waiting else None), "whoever has waited for the longest"

    @invariant()
    def somebody_sends_while_somebody_waits(self) -> None:
        assert self.gathering.busy is (self.sender is not None)
        assert not self.waiting or self.sender is not None


TestLives = Lives.TestCase


def test_who_sends_for_others_goes_on_while_somebody_waits() -> None:
    gathering: Gathering[Turn] = Gathering()
    turns = [turn_of() for _ in range(3)]
    gathering.enter(turns[0])
    assert gathering.take() == turns[:1]
    gathering.enter(turns[1])
    assert gathering.go_on()
    assert gathering.take() == turns[1:2]
    assert not gathering.go_on()
    gathering.enter(turns[2])
    assert [turn.sends for turn in turns] == [True, False, True]


def line(number: int) -> dict[str, Any]:
    """An answer: every third is a refusal."""
    if number % 3 == 2:
        return {"error": {"status": 404, "title": "no", "detail": f"{number}"}, "line": number + 1}
    return {"id": str(number)}


def told(outcome: object) -> str:
    """Whose it is."""
    if isinstance(outcome, Reply):
        return str(outcome.document["id"])
    assert isinstance(outcome, NotFound)
    return str(outcome)


@given(count=st.integers(1, 12), answered=st.integers(0, 14), data=st.data())
def test_each_has_its_own_answer_however_it_is_cut(count: int, answered: int, data: st.DataObject) -> None:
    turns = [turn_of(b"%d" % number) for number in range(count)]
    distribution = Distribution(turns)
    assert [json.loads(text) for text in distribution.content().splitlines()] == list(range(count))
    answer = b"".join(json.dumps(line(number)).encode() + b"\n" for number in range(answered))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=5)))
    handed_out: list[Turn] = []
    for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True):
        handed_out += distribution.feed(answer[start:end])
    handed_out += distribution.end()
    assert handed_out == turns[:answered]
    left = distribution.fail(None)
    assert [*handed_out, *left] == turns
    assert [told(turn.outcome) for turn in handed_out] == [str(number) for number in range(min(count, answered))]
    for turn in left:
        assert isinstance(turn.outcome, Unavailable)
        assert may_have_run(turn.outcome)
    assert len({id(turn.outcome) for turn in turns}) == count, "an error of its own for each"


def test_what_a_request_fails_with_as_a_whole_is_each_ones_to_try_again_or_to_ask_alone() -> None:
    cause = ConnectionError()
    away = Unavailable("away", status=503, problem={"executed": False}, retry_after=2.0)
    away.__cause__ = cause
    turns = [turn_of(), turn_of()]
    Distribution(turns).fail(away)
    for turn in turns:
        error = turn.outcome
        assert isinstance(error, Unavailable)
        assert error is not away
        assert (str(error), error.status, error.retry_after, error.__cause__) == ("away", 503, 2.0, cause)
        assert not may_have_run(error)
    Distribution(turns).fail(NotFound("no such path", status=404))
    assert [turn.outcome for turn in turns] == [ALONE, ALONE]
    Distribution(turns).fail(KeyboardInterrupt())
    assert all(isinstance(turn.outcome, Unavailable) for turn in turns)


@pytest.mark.parametrize("content", [b'{"body":\n1}', b"1" * MAX_BYTES])
def test_what_is_no_line_of_a_request_goes_alone(content: bytes) -> None:
    assert message("/v1/topics/t/messages", content) is None
    assert message("/v1/topics/t/messages", b"1" * (MAX_BYTES - 1)) is not None


def test_a_request_names_fewer_than_ten_thousand_ids() -> None:
    assert settlement(("t", "g"), b"", 10_000) is None
    one = settlement(("t", "g"), b'{"claim":"c","ack":["1"]}', 1)
    assert one is not None
    assert MAX_BYTES // one.size < 10_000
    assert settlement(None, b"{}", 0) is None, "a slow topic would keep others waiting"
