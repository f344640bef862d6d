"""A call that is answered badly, late or not at all."""

import socket
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest

from support.scripted_server import LOST, Answer, ScriptedServer, problem
from tarry.client import (
    AsyncTarry,
    BadRequest,
    Cancelled,
    Conflict,
    Forbidden,
    IdempotencyConflict,
    LeaseLost,
    NotFound,
    Suppressed,
    Tarry,
    TarryError,
    TooLarge,
    TooLate,
    Unavailable,
    Unsupported,
)

RECEIPT = {"id": "1", "topic": "orders", "state": "published", "deliver_at": "2026-01-01T00:00:00.000Z"}


def test_a_lost_answer_is_asked_for_again_with_the_same_request(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(LOST, Answer(201, RECEIPT | {"replayed": True}))
    receipt = tarry.publish("orders", {"order": 7}, delay="48h")
    first, second = script.requests
    assert first.content == second.content
    assert len(first.json["idempotency_key"]) == 32
    assert receipt.replayed


def test_retry_after_is_honoured_and_jitter_added(script: ScriptedServer, tarry: Tarry, sleeps: list[float]) -> None:
    script.say(problem(503), Answer(503, headers={"Retry-After": "2"}), problem(503), Answer(201, RECEIPT))
    tarry.publish("orders", 1)
    assert len(script.requests) == 4
    assert 0 <= sleeps[0] <= 0.05
    assert 2 <= sleeps[1] <= 2.1
    assert 0 <= sleeps[2] <= 0.2


def test_a_server_that_wants_more_time_than_there_is_ends_the_call(
    script: ScriptedServer, tarry: Tarry, sleeps: list[float]
) -> None:
    script.say(Answer(503, {"detail": "the store is away"}, {"Retry-After": "60"}))
    with pytest.raises(Unavailable, match="the store is away") as error:
        tarry.publish("orders", 1)
    assert error.value.retry_after == 60
    assert sleeps == []


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(script: ScriptedServer, tarry: Tarry, status: int) -> None:
    script.say(problem(status), Answer(200, {"topics": []}))
    assert tarry.topics() == []


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(400, errors=[{"pointer": "/delay", "detail": "negative"}]), BadRequest),
        (problem(400, type="/problems/not-built"), Unsupported),
        (problem(401), Forbidden),
        (problem(403), Forbidden),
        (problem(404), NotFound),
        (problem(409), Conflict),
        (problem(409, result="too_late"), TooLate),
        (problem(409, result="cancelled"), Cancelled),
        (problem(409, result="suppressed"), Suppressed),
        (problem(409, result="lease_lost"), LeaseLost),
        (problem(413), TooLarge),
        (problem(418), TarryError),
        (problem(422), IdempotencyConflict),
    ],
)
def test_what_will_not_pass_is_raised_at_once(
    script: ScriptedServer, tarry: Tarry, answer: Answer, kind: type[TarryError]
) -> None:
    script.say(answer)
    with pytest.raises(TarryError) as error:
        tarry.topics()
    assert type(error.value) is kind
    assert error.value.status == answer.status
    assert error.value.errors == answer.document.get("errors", [])
    assert len(script.requests) == 1


def test_a_stranger_in_the_way_is_named(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, headers={"Content-Type": "text/html"}, content=b"<h1>Log in</h1>"))
    with pytest.raises(TarryError, match="answered 200 with text/html: is it Tarry"):
        tarry.topics()


def test_a_strangers_refusal_keeps_its_status(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(404, headers={"Content-Type": "text/html"}, content=b"nothing here"))
    with pytest.raises(NotFound, match="answered 404 with text/html"):
        tarry.topics()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(413, headers={"Content-Type": "text/html", "Server": "nginx/1.22.1"}, content=b"<p>"), "nginx/1.22.1"),
        (Answer(413, headers={"Content-Type": "text/html"}, content=b"<p>"), "client_max_body_size"),
        (Answer(302, headers={"Location": "https://login.example/"}), "https://login.example/"),
        (Answer(405, {"message": "Not Allowed"}), "PATCH and DELETE"),
        (Answer(418, content=b""), "with no content.*Is the address right"),
        (Answer(504, content=b"upstream"), "proxy_read_timeout"),
    ],
)
def test_what_a_proxy_may_have_answered_is_told(script: ScriptedServer, answer: Answer, said: str) -> None:
    script.say(answer)
    with Tarry(script.url, deadline=0) as tarry, pytest.raises(TarryError, match=said) as error:
        tarry.topics()
    assert "That is not Tarry's answer" in str(error.value)
    assert error.value.status == answer.status


def test_what_tarry_says_is_not_a_proxys(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(problem(413, detail="a body has 256 KiB at most"))
    with pytest.raises(TooLarge, match=r"^a body has 256 KiB at most$"):
        tarry.topics()


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address at which nobody listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{closed.getsockname()[1]}"


def test_nobody_there(nowhere: str) -> None:
    with Tarry(nowhere, deadline=0.0) as tarry:
        for call in (tarry.topics, lambda: tarry.fail("c1")):
            with pytest.raises(Unavailable, match="does not answer") as error:
                call()
            assert error.value.__cause__ is not None
            assert not error.value.in_doubt, "it was never sent"
        assert not tarry.ready()


class Enough(Exception):
    """Of naps."""


def naps(url: str) -> list[float]:
    """What the client sleeps between its first sixty tries."""
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 60:
            raise Enough

    with Tarry(url, deadline=300.0, sleep=nap) as tarry, pytest.raises(Enough):
        tarry.topics()
    return naps


def test_a_server_that_is_away_is_looked_for_often(nowhere: str) -> None:
    """What falls due until the next try is late."""
    assert 0.25 < max(naps(nowhere)) <= 0.5


def test_a_server_that_is_there_and_in_trouble_is_left_alone(script: ScriptedServer) -> None:
    script.respond = lambda _: problem(503)
    assert 1 < max(naps(script.url)) <= 2


@pytest.mark.parametrize("url", ["127.0.0.1:8277", "ftp://x", ""])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ValueError, match="begins with http"):
        Tarry(url)


def test_names_are_quoted(script: ScriptedServer, tarry: Tarry) -> None:
    def respond(_: Any) -> Answer:
        return Answer(200, {})

    script.respond = respond
    tarry.topic("a/b ü")
    assert script.requests[0].path == "/v1/topics/a%2Fb%20%C3%BC"


@pytest.mark.parametrize(
    ("before", "in_doubt"),
    [
        (LOST, True),
        (problem(500), True),
        (problem(503, executed=False), False),
        (problem(429), False),
        (None, False),
    ],
)
def test_a_refusal_tells_whether_an_earlier_try_may_have_done_it(
    script: ScriptedServer, tarry: Tarry, before: Answer | None, in_doubt: bool
) -> None:
    script.say(*([before] if before is not None else []), problem(409, result="lease_lost"))
    with pytest.raises(LeaseLost) as error:
        tarry.fail("c1", reason="no")
    assert error.value.in_doubt is in_doubt
    assert bool(getattr(error.value, "__notes__", [])) is in_doubt


class Signing(httpx.Client):
    """As clients of OAuth do."""

    def request(self, method: str, url: Any, **options: Any) -> httpx.Response:
        options["headers"] = {**(options["headers"] or {}), "Authorization": "Bearer t"}
        return super().request(method, url, **options)


class AsyncSigning(httpx.AsyncClient):
    async def request(self, method: str, url: Any, **options: Any) -> httpx.Response:
        options["headers"] = {**(options["headers"] or {}), "Authorization": "Bearer t"}
        return await super().request(method, url, **options)


def test_a_client_of_ones_own_may_add_credentials_in_its_request(script: ScriptedServer) -> None:
    async def nudge() -> None:
        async with AsyncSigning() as client, AsyncTarry(script.url, client=client) as tarry:
            await tarry.nudge()

    script.say(Answer(200), Answer(200))
    with Signing() as client, Tarry(script.url, client=client) as tarry:
        tarry.nudge()
    anyio.run(nudge)
    assert [request.headers["Authorization"] for request in script.requests] == ["Bearer t"] * 2
