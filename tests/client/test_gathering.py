"""Who goes with whom in a request: order, limits, and an outcome for each. Random lives, against a list."""

import json
from collections import deque
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from tarry.client import NotFound, Unavailable
from tarry.client.calls import Call, Reply
from tarry.client.gathering import Caller, Distribution, Gathering
from tarry.client.shares import ALONE, MAX_BYTES, message, settlement
from tarry.client.transport import may_have_run

_SHARES = 6
_BYTES = 100
_WORTH = 2


def caller_of(content: bytes = b"{}") -> Caller:
    """A message on its way."""
    share = message("/v1/topics/t/messages", content)
    assert share is not None
    return Caller(Call("POST", share.path, lambda reply: reply, content, share=share), share)


class Lives(RuleBasedStateMachine):
    """Callers come, send and give up in any order; answers come in pieces."""

    callers = Bundle("callers")

    @initialize()
    def begin(self) -> None:
        self.gathering: Gathering[Caller] = Gathering(_SHARES, _BYTES, _WORTH)
        self.waiting: list[Caller] = []
        self.sent: list[Caller] = []
        self.called: Caller | None = None
        self.under_way: list[Caller] = []
        """Who has sent a request."""

    @rule(target=callers, size=st.integers(0, _BYTES + 20))
    def come(self, size: int) -> Caller:
        caller = caller_of(b"1" * size)
        free = self.called is None and not self.under_way
        self.waiting.append(caller)
        self.follow(self.gathering.enter(caller))
        if free:
            assert self.called is caller, "who comes when nothing is under way sends at once"
        return caller

    @precondition(lambda self: self.called is not None)
    @rule()
    def send(self) -> None:
        assert self.called is not None
        sender, self.called = self.called, None
        sender.load = load = self.gathering.take()
        taken = list(load.callers)
        assert taken == self.waiting[: len(taken)], "in their order"
        assert taken[0] is sender
        sizes = [caller.share.size + 1 for caller in taken]
        assert len(taken) <= _SHARES
        assert len(taken) == 1 or sum(sizes) <= _BYTES
        rest = self.waiting[len(taken) :]
        full = len(taken) == _SHARES or not rest or sum(sizes) + rest[0].share.size + 1 > _BYTES
        assert full or len(taken) >= _WORTH, "who has room is left behind for half of a crowd alone"
        assert not set(taken) & set(self.sent), "nothing twice"
        self.sent += taken
        self.waiting = rest
        self.under_way.append(sender)
        self.follow(self.gathering.call())

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def answer_some(self, data: st.DataObject) -> None:
        load = data.draw(st.sampled_from(self.under_way)).load
        assert load is not None
        self.gathering.answered(load, data.draw(st.integers(0, load.unanswered)))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.leave(data.draw(st.sampled_from(self.under_way)))

    @rule(caller=consumes(callers))
    def give_up(self, caller: Caller) -> None:
        """Unsent, under way, or with its outcome."""
        unsent = caller in self.waiting
        assert self.gathering.unsent(caller) is unsent
        if unsent:
            self.waiting.remove(caller)
        self.leave(caller)

    def leave(self, caller: Caller) -> None:
        sent = caller is self.called or caller in self.under_way
        if caller is self.called:
            self.called = None
        if caller in self.under_way:
            self.under_way.remove(caller)
        following = self.gathering.leave(caller)
        assert sent or following is None
        self.follow(following)

    def follow(self, called: Caller | None) -> None:
        if called is not None:
            assert self.called is None, "one after the other"
            assert called is self.waiting[0], "whoever has waited for the longest"
            self.called = called
        assert all(caller.sends is (caller is self.called) for caller in self.waiting)

    @invariant()
    def somebody_sends_while_somebody_waits(self) -> None:
        assert len(self.under_way) + (self.called is not None) <= 2
        assert self.gathering.busy is bool(self.under_way or self.called)
        assert not self.waiting or self.called or self.under_way
        if self.waiting and len(self.under_way) == 1 and self.called is None:
            there = len(self.waiting) + sum(caller.load.unanswered for caller in self.under_way if caller.load)
            assert there // 2 < _WORTH or len(self.waiting) < there // 2, "a crowd has two under way"


TestLives = Lives.TestCase


class Crowd:
    """So many callers who come again with their answers, in whatever order; a request takes some time of the server."""

    def __init__(self, callers: int) -> None:
        self.gathering: Gathering[Caller] = Gathering(worth=_WORTH)
        self.under_way: deque[Caller] = deque()
        self.sizes: list[int] = []
        for _ in range(callers):
            self.come()

    def come(self) -> None:
        self.send(self.gathering.enter(caller_of()))

    def send(self, called: Caller | None) -> None:
        while called is not None:
            called.load = self.gathering.take()
            self.sizes.append(len(called.load.callers))
            self.under_way.append(called)
            assert len(self.under_way) <= 2
            called = self.gathering.call()

    def answer(self, requests: int = 1, stay_away: int = 0) -> None:
        """To what was sent first; its callers come again at once, but for some, and then its senders."""
        senders = [self.under_way.popleft() for _ in range(min(requests, len(self.under_way)))]
        for sender in senders:
            assert sender.load is not None
            if sender.load.unanswered > 1:  # else it goes alone, and ends with its answer
                self.gathering.answered(sender.load, sender.load.unanswered)
        for sender in senders:
            assert sender.load is not None
            for _ in sender.load.callers[1 + stay_away :]:
                self.come()
        for sender in senders:
            self.send(self.gathering.leave(sender))
            self.come()


@pytest.mark.slow
@given(callers=st.integers(1, 60), lives=st.lists(st.tuples(st.integers(1, 2), st.integers(0, 3)), max_size=10))
def test_a_crowd_has_two_requests_under_way_each_of_half(callers: int, lives: list[tuple[int, int]]) -> None:
    """Whatever they began with, and whoever goes: none remains tiny."""
    crowd = Crowd(callers)
    for requests, stay_away in lives:
        crowd.answer(requests, stay_away)
    there = sum(caller.load.unanswered for caller in crowd.under_way if caller.load) + len(crowd.gathering._waiting)
    for _ in range(20):
        crowd.answer()
    for requests in (1, 1, 1, 2, 1, 2, 2):
        crowd.answer(requests)
        halves = there // 2 >= _WORTH + 1
        assert len(crowd.under_way) == 2 or not halves
        for size in crowd.sizes[-2:]:
            assert size >= there // 2 - 1, "about half of those there are"
            assert size <= there - there // 2 + 1 or not halves


def test_a_small_crowd_goes_together_and_one_caller_at_once() -> None:
    gathering: Gathering[Caller] = Gathering(worth=2)
    callers = [caller_of() for _ in range(5)]
    assert gathering.enter(callers[0]) is callers[0]
    callers[0].load = gathering.take()
    assert [gathering.enter(caller) for caller in callers[1:3]] == [None, None], "of three, half is not worth it"
    assert gathering.enter(callers[3]) is callers[1], "whoever has waited for the longest"
    assert gathering.enter(callers[4]) is None, "one is called already"
    assert gathering.leave(callers[1]) is callers[2], "it gives up, and the next is called"


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
    callers = [caller_of(b"%d" % number) for number in range(count)]
    distribution = Distribution(callers)
    assert [json.loads(text) for text in distribution.content().splitlines()] == list(range(count))
    answer = b"".join(json.dumps(line(number)).encode() + b"\n" for number in range(answered))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=5)))
    handed_out: list[Caller] = []
    for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True):
        handed_out += distribution.feed(answer[start:end])
    handed_out += distribution.end()
    assert handed_out == callers[:answered]
    left = distribution.fail(None)
    assert [*handed_out, *left] == callers
    assert [told(caller.outcome) for caller in handed_out] == [str(number) for number in range(min(count, answered))]
    for caller in left:
        assert isinstance(caller.outcome, Unavailable)
        assert may_have_run(caller.outcome)
    assert len({id(caller.outcome) for caller in callers}) == count, "an error of its own for each"


def test_what_a_request_fails_with_as_a_whole_is_each_ones_to_try_again_or_to_ask_alone() -> None:
    cause = ConnectionError()
    away = Unavailable("away", status=503, problem={"executed": False}, retry_after=2.0)
    away.__cause__ = cause
    callers = [caller_of(), caller_of()]
    Distribution(callers).fail(away)
    for caller in callers:
        error = caller.outcome
        assert isinstance(error, Unavailable)
        assert error is not away
        assert (str(error), error.status, error.retry_after, error.__cause__) == ("away", 503, 2.0, cause)
        assert not may_have_run(error)
    Distribution(callers).fail(NotFound("no such path", status=404))
    assert [caller.outcome for caller in callers] == [ALONE, ALONE]
    Distribution(callers).fail(KeyboardInterrupt())
    assert all(isinstance(caller.outcome, Unavailable) for caller in callers)


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
