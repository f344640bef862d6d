"""Callers who share requests: threads of `Tarry`, tasks of `AsyncTarry`. Each has its own receipt, error and tries."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import anyio
import httpx
import pytest

from support.blocking import Blocking
from support.each_loop import on_each_loop
from support.scripted_server import Answer, Request, ScriptedServer, problem
from support.waiting import wait_until
from tarry.client import AsyncTarry, Claim, LeaseLost, NotFound, Receipt, Tarry, Unavailable
from tarry.client.calls import Call, Reply, Share
from tarry.client.coroutines import drive
from tarry.client.durations import instant_in
from tarry.client.shares import message
from tarry.client.thread_sharing import ThreadSharing

_TIME = "2026-01-01T00:00:00.000Z"
_LINES = {"Content-Type": "application/x-ndjson"}


def messages(request: Request) -> list[dict[str, Any]]:
    """Those of a request, of one or of many."""
    return [json.loads(line) for line in request.content.splitlines()]


def receipt(one: dict[str, Any]) -> dict[str, Any]:
    """Its id tells whose it is."""
    return {"id": str(one["body"]), "topic": "orders", "state": "published", "deliver_at": _TIME}


def answer(request: Request, line: Callable[[dict[str, Any]], Any] = receipt) -> Answer:
    """Takes everything; `line` answers each message."""
    lines = [line(one) for one in messages(request)]
    if request.headers["Content-Type"] != _LINES["Content-Type"]:
        return Answer(201, lines[0])
    return Answer(200, headers=_LINES, content=b"".join(json.dumps(one).encode() + b"\n" for one in lines))


class Crowd:
    """Callers of whom the first is held up at the server, so that the others gather."""

    def __init__(self, tarry: Tarry, script: ScriptedServer) -> None:
        self.tarry = tarry
        self.script = script
        self.pool = ThreadPoolExecutor(64)
        self.held = threading.Event()
        self.begun = threading.Event()
        self.respond: Callable[[Request], Answer] = answer
        script.respond = self._respond

    def _respond(self, request: Request) -> Answer:
        if not self.begun.is_set():
            self.begun.set()
            assert self.held.wait(10)
            return answer(request) if "/messages" in request.path else Answer(200, {"acked": 1})
        return self.respond(request)

    def gather(self, calls: list[Callable[[], Any]], first: Callable[[], Any] | None = None) -> list[Future[Any]]:
        """One call is under way, and these wait in their order."""
        self.first = self.pool.submit(first or (lambda: self.tarry.publish("orders", "first")))
        assert self.begun.wait(10)
        futures: list[Future[Any]] = []
        for call in calls:
            futures.append(self.pool.submit(call))
            wait_until(lambda: self.waiting() == len(futures))
        return futures

    def waiting(self) -> int:
        client: Any = self.tarry.front if isinstance(self.tarry, Blocking) else self.tarry
        gatherings = client._transport._sharing._states.get().gatherings
        return sum(len(one._waiting) for one in list(gatherings.values()))

    def go_on(self) -> None:
        self.held.set()


@pytest.fixture
def crowd(tarry: Tarry, script: ScriptedServer) -> Iterator[Crowd]:
    crowd = Crowd(tarry, script)
    yield crowd
    crowd.go_on()
    crowd.pool.shutdown()


def publishes(crowd: Crowd, count: int) -> list[Callable[[], Receipt]]:
    return [lambda number=number: crowd.tarry.publish("orders", number) for number in range(count)]  # type: ignore[misc]


def test_who_comes_while_a_request_is_under_way_shares_the_next(crowd: Crowd, script: ScriptedServer) -> None:
    futures = crowd.gather(publishes(crowd, 5))
    crowd.go_on()
    assert [future.result(10).id for future in futures] == ["0", "1", "2", "3", "4"]
    assert crowd.first.result(10).id == "first"
    alone, shared = script.requests
    assert alone.headers["Content-Type"] == "application/json"
    assert [one["body"] for one in messages(shared)] == [0, 1, 2, 3, 4], "in their order"
    assert len({one["idempotency_key"] for one in messages(shared)}) == 5
    assert crowd.tarry.publish("orders", "later").id == "later"
    assert script.requests[-1].headers["Content-Type"] == "application/json", "who is alone goes alone"


def test_an_error_is_one_callers_and_trouble_is_its_own_to_try_again(crowd: Crowd, script: ScriptedServer) -> None:
    troubled: Counter[Any] = Counter()

    def line(one: dict[str, Any]) -> dict[str, Any]:
        if one["body"] == 1:
            return {"error": problem(404, detail="no such queue").document, "line": 2}
        troubled[one["body"]] += 1
        if one["body"] in (2, 3) and troubled[one["body"]] == 1:
            return {"error": problem(503, detail="busy").document, "line": 3}
        return receipt(one)

    crowd.respond = lambda request: answer(request, line)
    futures = crowd.gather(publishes(crowd, 5))
    crowd.go_on()
    with pytest.raises(NotFound, match="no such queue") as error:
        futures[1].result(10)
    assert error.value.status == 404
    assert [futures[number].result(10).id for number in (0, 2, 3, 4)] == ["0", "2", "3", "4"]
    assert troubled == {0: 1, 2: 2, 3: 2, 4: 1}
    keys = {number: set[str]() for number in (2, 3)}
    for one in [one for request in script.requests[1:] for one in messages(request)]:
        if one["body"] in keys:
            keys[one["body"]].add(one["idempotency_key"])
    assert [len(some) for some in keys.values()] == [1, 1], "again with the same key"


def test_of_an_answer_that_ends_early_the_rest_is_asked_for_again(crowd: Crowd, script: ScriptedServer) -> None:
    def cut(request: Request) -> Answer:
        crowd.respond = answer
        whole = answer(request).content
        assert whole is not None
        return Answer(200, headers=_LINES, content=b"".join(whole.splitlines(keepends=True)[:2]) + b'{"id":', cut=True)

    crowd.respond = cut
    futures = crowd.gather(publishes(crowd, 4))
    crowd.go_on()
    assert [future.result(10).id for future in futures] == ["0", "1", "2", "3"]
    again = [one["body"] for request in script.requests[2:] for one in messages(request)]
    assert sorted(again) == [2, 3]


@pytest.mark.parametrize("refusal", [problem(413), problem(404), Answer(200, {"not": "lines"})])
def test_what_is_refused_as_a_whole_each_asks_for_alone(crowd: Crowd, script: ScriptedServer, refusal: Answer) -> None:
    crowd.respond = lambda request: refusal if request.headers["Content-Type"] in _LINES.values() else answer(request)
    futures = crowd.gather(publishes(crowd, 3))
    crowd.go_on()
    assert [future.result(10).id for future in futures] == ["0", "1", "2"]
    assert len(script.requests) == 5


def test_a_slow_topic_holds_up_no_other(crowd: Crowd) -> None:
    futures = crowd.gather(publishes(crowd, 2))
    assert crowd.tarry.publish("others", 7).id == "7"
    crowd.go_on()
    assert [future.result(10).id for future in futures] == ["0", "1"]


def test_a_request_has_a_thousand_messages_and_a_mebibyte_at_most(crowd: Crowd, script: ScriptedServer) -> None:
    big = "x" * (400 << 10)
    crowd.respond = lambda request: answer(request, lambda _: receipt({"body": 0}))
    futures = crowd.gather([lambda: crowd.tarry.publish("orders", big)] * 5)
    crowd.go_on()
    for future in futures:
        future.result(10)
    assert [len(messages(request)) for request in script.requests] == [1, 2, 2, 1]


def test_acks_and_fails_of_a_group_share_too(crowd: Crowd, script: ScriptedServer) -> None:
    def claim(name: str) -> Claim:
        return Claim(name, "orders", "g", instant_in(_TIME), ())

    def settle(request: Request) -> Answer:
        lost = {"error": problem(409, result="lease_lost").document}
        done = {"acked": 2, "retried": 1, "dead": 0}
        settled = [lost if one["claim"] == "lost" else done for one in request.json["settle"]]
        return Answer(200, {"settled": settled}, {"Content-Type": "application/json"})

    tarry = crowd.tarry
    crowd.respond = settle
    futures = crowd.gather(
        [
            lambda: tarry.ack(claim("a"), ["1", "2"]),
            lambda: tarry.ack(claim("b")),
            lambda: tarry.fail(claim("c"), ["3"], reason="no", retry_after="10s", count=False),
            lambda: tarry.ack(claim("lost")),
        ],
        lambda: tarry.ack(claim("first")),
    )
    crowd.go_on()
    assert [futures[0].result(10), futures[1].result(10), futures[2].result(10).retried] == [2, 2, 1]
    with pytest.raises(LeaseLost):
        futures[3].result(10)
    assert [request.path for request in script.requests] == ["/v1/claims/first/ack", "/v1/claims/settle"]
    assert script.requests[1].json["settle"] == [
        {"claim": "a", "ack": ["1", "2"]},
        {"claim": "b", "ack": "all"},
        {"claim": "c", "fail": {"count": False, "ids": ["3"], "reason": "no", "retry_after": "10s"}},
        {"claim": "lost", "ack": "all"},
    ]


def test_who_is_late_gives_up_unsent(script: ScriptedServer) -> None:
    with Tarry(script.url, timeout=5, deadline=5) as tarry:
        crowd = Crowd(tarry, script)
        share = message("/v1/topics/orders/messages", b'{"body":1}')
        assert share is not None
        call = Call("POST", share.path, lambda reply: reply, b'{"body":1}', share=share)
        crowd.gather([])
        with pytest.raises(Unavailable, match="not sent") as error:
            drive(tarry._transport._sharing.ask(call, share, 0.01))
        assert isinstance(error.value.__cause__, TimeoutError)
        crowd.go_on()
        crowd.first.result(10)
        crowd.pool.shutdown()
        assert len(script.requests) == 1


def test_whoever_sends_and_is_interrupted_leaves_the_others_in_doubt() -> None:
    begun, interrupted = threading.Event(), threading.Event()

    class Broken:
        async def once(self, call: Call[Any]) -> Reply:
            begun.set()
            assert interrupted.wait(10)
            return Reply({}, 0)

        async def stream(self, share: Share, content: bytes, took: Callable[[bytes], None]) -> None:
            took(b'{"id":"1"}\n')
            raise KeyboardInterrupt

    sharing = ThreadSharing(Broken())
    share = message("p", b"{}")
    assert share is not None
    call: Call[Any] = Call("POST", "p", lambda reply: reply, b"{}", share=share)

    def ask() -> Reply:
        return drive(sharing.ask(call, share, 10))

    with ThreadPoolExecutor() as pool:
        first = pool.submit(ask)
        assert begun.wait(10)
        others = [pool.submit(ask) for _ in range(4)]
        wait_until(lambda: sum(len(one._waiting) for one in sharing._states.get().gatherings.values()) == 4)
        interrupted.set()
        first.result(10)
        errors = sorted(type(other.exception(10)).__name__ for other in others)
    assert errors == ["KeyboardInterrupt", "Unavailable", "Unavailable", "Unavailable"]
    assert sharing._states.get().gatherings == {}


class Signing(httpx.Client):
    """As clients of OAuth do."""

    def request(self, method: str, url: Any, **options: Any) -> httpx.Response:
        options["headers"] = {**(options["headers"] or {}), "Authorization": "Bearer t"}
        return super().request(method, url, **options)


def test_a_client_that_adds_credentials_in_its_request_adds_them_to_shared_ones(script: ScriptedServer) -> None:
    with Signing() as client, Tarry(script.url, client=client) as tarry:
        crowd = Crowd(tarry, script)
        futures = crowd.gather(publishes(crowd, 3))
        crowd.go_on()
        assert [future.result(10).id for future in futures] == ["0", "1", "2"]
        crowd.pool.shutdown()
    assert [request.headers["Authorization"] for request in script.requests] == ["Bearer t"] * 2


@on_each_loop
@pytest.mark.parametrize("block", [True, False])
async def test_a_cancelled_task_is_taken_out_and_harms_no_other(script: ScriptedServer, block: bool) -> None:
    """Unsent, or under way with the others: whose tries it costs without a block, and not their messages."""
    first, shared, held = threading.Event(), threading.Event(), threading.Event()

    def respond(request: Request) -> Answer:
        if not first.is_set():
            first.set()
            assert held.wait(10)
        elif not shared.is_set():
            shared.set()
            assert gone.wait(10)
        return answer(request)

    gone = threading.Event()
    script.respond = respond
    got: list[str] = []

    async def publish(tarry: AsyncTarry, body: Any) -> None:
        got.append((await tarry.publish("orders", body)).id)

    tarry = AsyncTarry(script.url)
    if block:
        await tarry.__aenter__()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(publish, tarry, "first")
        await anyio.to_thread.run_sync(first.wait)
        with anyio.CancelScope() as sent:
            async with anyio.create_task_group() as inner:
                inner.start_soon(publish, tarry, "sent")
                await anyio.lowlevel.checkpoint()
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                tasks.start_soon(publish, tarry, "other")
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                with anyio.move_on_after(0.05) as unsent:
                    await publish(tarry, "unsent")
                assert unsent.cancelled_caught
                held.set()
                await anyio.to_thread.run_sync(shared.wait)
                sent.cancel()
        assert sent.cancelled_caught
        gone.set()
    if block:
        await tarry.__aexit__(None, None, None)
    else:
        await tarry.close()
    assert sorted(got) == ["first", "other"]
    bodies = [one["body"] for request in script.requests for one in messages(request)]
    assert bodies == ["first", "sent", "other"] + ([] if block else ["other"])
