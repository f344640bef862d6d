"""POST /v1/topics/{topic}/messages as lines: each is published for itself, and has an answer of its own."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from support.spied import SpiedServer, spied
from tarry.service.engine.batching import combiner
from tarry.service.errors import Busy, Overloaded
from tarry.service.http.ndjson import MEDIA_TYPE
from tarry.service.http.server.ports import CREDIT, Credit, Message, Unlimited
from tarry.service.http.server.ports import App as ASGIApp
from tarry.service.settings import Settings
from tarry.store.errors import OutcomeUnknown, Refused, Unavailable
from tarry.store.records import Publication
from tarry.store.store import Store

ORDERS = "/v1/topics/orders/messages"
LIMIT = 1024 + 512 + (64 << 10)
"""Of a line, by the settings of these tests."""


def lines(*messages: Any) -> bytes:
    return b"".join([json.dumps(message).encode() + b"\n" for message in messages])


async def publish(
    client: httpx.AsyncClient, content: bytes | AsyncIterator[bytes], **headers: str
) -> list[dict[str, Any]]:
    response = await client.post(ORDERS, content=content, headers={"Content-Type": MEDIA_TYPE} | headers)
    assert (response.status_code, response.headers["content-type"]) == (200, MEDIA_TYPE), response.text
    assert response.text.endswith("\n") or not response.text
    return [json.loads(line) for line in response.text.splitlines()]


def asked(server: SpiedServer) -> list[Publication]:
    return [one for (some,) in server.all("intake.publish_each") for one in some]


def verdicts(answers: Sequence[dict[str, Any]]) -> list[Any]:
    """The state of what was accepted; of the others the kind and the line."""
    return [
        (answer["error"]["type"].rpartition("/")[2], answer["line"]) if "error" in answer else answer["state"]
        for answer in answers
    ]


async def test_each_line_is_published(client: httpx.AsyncClient, server: SpiedServer) -> None:
    answers = await publish(
        client, lines({"body": {"order": 7}, "key": "k"}, {"body": 1, "delay": "1m"}, {"body_base64": "AP8="})
    )
    assert verdicts(answers) == ["published", "scheduled", "published"]
    assert (answers[0]["topic"], answers[0]["offset"], answers[2]["offset"]) == ("orders", 0, 1)
    message = (await client.get(f"/v1/messages/{answers[0]['id']}")).json()
    assert (message["body"], message["key"]) == ({"order": 7}, "k")
    (some,) = server.all("intake.publish_each")
    assert len(some[0]) == 3, "they are asked for together"


async def test_a_bad_line_stops_nothing(client: httpx.AsyncClient, server: SpiedServer) -> None:
    content = b"\n".join(
        [
            b'{"body": 1}',
            b"",
            b"{",
            b'{"bdoy": 1}',
            b'{"messages": [{"body": 1}]}',
            b'{"body": "' + b"x" * 1024 + b'"}',
            b" " * LIMIT + b"{}",
            b"x" * 999_999,
            b'{"body": 1, "queue": 5}',
            b'{"body": 1, "idempotency_key": ""}',
            b'{"body": "\xff"}',
            b"[" * 9999,
            b'  {"body": 2}\r',
        ]
    )
    answers = await publish(client, content)
    assert verdicts(answers) == [
        "published",
        ("bad-request", 3),
        ("bad-request", 4),
        ("bad-request", 5),
        ("too-large", 6),
        ("too-large", 7),
        ("too-large", 8),
        ("bad-request", 9),
        ("bad-request", 10),
        ("bad-request", 11),
        ("bad-request", 12),
        "published",
    ]
    assert answers[2]["error"]["errors"][0] == {"detail": "unknown field; did you mean `body`?", "pointer": "/bdoy"}
    assert answers[5]["error"]["detail"] == f"a line may have {LIMIT} bytes at most"
    assert len(asked(server)) == 2


@pytest.mark.parametrize("content", [b"", b"\n", b" \r\n\n"])
async def test_nothing_is_answered_with_nothing(client: httpx.AsyncClient, server: SpiedServer, content: bytes) -> None:
    assert await publish(client, content) == []
    assert asked(server) == []


@pytest.mark.parametrize("size", [1, 3, 7, 100])
async def test_pieces_do_not_matter(client: httpx.AsyncClient, size: int) -> None:
    content = lines(*[{"body": "ü" * number} for number in range(9)]).rstrip()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(content), size):
            yield content[start : start + size]

    assert verdicts(await publish(client, pieces())) == ["published"] * 9


async def test_each_has_its_own_idempotency_key(client: httpx.AsyncClient, server: SpiedServer) -> None:
    message = {"body": 1, "idempotency_key": "a"}
    first = await publish(client, lines(message, {"body": 2}, message, message | {"body": 2}))
    assert verdicts(first) == ["published", "published", "published", ("idempotency-conflict", 4)]
    assert first[2] == first[0] | {"replayed": True}
    again = await publish(client, lines(message, {"body": 2}))
    assert again[0] == first[0] | {"replayed": True}
    assert again[1]["offset"] == 2
    single = await client.post(ORDERS, content=json.dumps(message), headers={"Content-Type": "application/json"})
    assert single.json() == again[0], "the line is the request"


async def test_what_is_wrong_with_the_request_is_told_of_it(client: httpx.AsyncClient, server: SpiedServer) -> None:
    for headers, status in [
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Type": f"{MEDIA_TYPE}; charset=latin-1"}, 415),
        ({"Content-Type": "application/jsonl"}, 415),
        ({"Idempotency-Key": "k"}, 400),
        ({"Origin": "http://example.com"}, 403),
    ]:
        response = await client.post(ORDERS, content=b"{}", headers={"Content-Type": MEDIA_TYPE} | headers)
        assert response.status_code == status, headers
    response = await client.post(f"{ORDERS}?x=1", content=b"{}", headers={"Content-Type": MEDIA_TYPE})
    assert response.status_code == 400
    assert asked(server) == []


async def test_a_type_with_parameters_is_the_same(client: httpx.AsyncClient) -> None:
    response = await client.post(
        ORDERS, content=lines({"body": 1}), headers={"Content-Type": "Application/X-NDJSON; charset=UTF-8"}
    )
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("error", "status", "executed"),
    [
        (Overloaded("full"), 503, False),
        (Busy("held"), 503, False),
        (Unavailable("gone"), 503, False),
        (OutcomeUnknown("gone"), 503, None),
        (RuntimeError("a fault"), 500, None),
    ],
)
async def test_trouble_holds_back_what_lies_behind(
    client: httpx.AsyncClient, server: SpiedServer, error: Exception, status: int, executed: bool | None
) -> None:
    server.errors["intake.publish_each"] = error

    async def pieces() -> AsyncIterator[bytes]:
        yield lines({"body": 1, "ordering_key": "a"}, {"body": 1})
        while not server.all("intake.publish_each"):
            await trio.sleep(0.001)
        server.errors.clear()
        yield lines(
            {"body": 2, "ordering_key": "a"}, {"body": 2, "ordering_key": "b"}, {"body": 2}, {"ordering_key": "a"}
        )

    answers = await publish(client, pieces())
    assert [answer.get("error", {}).get("status") for answer in answers] == [status, status, 503, None, None, 400]
    assert [answer.get("error", {}).get("executed") for answer in answers[:2]] == [executed] * 2
    assert verdicts(answers[2:3]) == [("held-back", 3)]
    assert answers[2]["error"]["executed"] is False


async def test_what_is_refused_for_its_data_holds_nothing_back(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_all = Store.publish

    async def refuse(store: Store, publications: Sequence[Publication], now: int) -> Any:
        if any(draft.body == b"13" for one in publications for draft in one.drafts):
            raise Refused("no such number")
        return await publish_all(store, publications, now)

    monkeypatch.setattr(Store, "publish", refuse)
    answers = await publish(client, lines(*[{"body": number, "ordering_key": "a"} for number in range(20)]))
    expected: list[Any] = ["published"] * 20
    expected[13] = ("bad-request", 14)
    assert verdicts(answers) == expected
    accepted = [answer["offset"] for answer in answers if "error" not in answer]
    assert accepted == list(range(19)), "in their order"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ordering_key", "ordered", "together"), [(None, False, 2), ("a", False, 1), (None, True, 1), ("a", True, 1)]
)
async def test_two_batches_are_written_at_a_time_unless_there_is_an_order_between_them(
    client: httpx.AsyncClient,
    server: SpiedServer,
    monkeypatch: pytest.MonkeyPatch,
    ordering_key: str | None,
    ordered: bool,
    together: int,
) -> None:
    await server.topic(ordered=ordered)
    publish_all = Store.publish
    flying: list[int] = []
    most: list[int] = []
    over: list[int] = []

    async def slowly(store: Store, publications: Sequence[Publication], now: int) -> Any:
        flying.append(len(most))
        most.append(len(flying))
        number = flying[-1]
        await wait_all_tasks_blocked()
        while number == 0 and together == 2 and not over:  # the answers to the first come first all the same
            await trio.sleep(0.001)
        answers = await publish_all(store, publications, now)
        flying.remove(number)
        over.append(number)
        return answers

    monkeypatch.setattr(Store, "publish", slowly)
    monkeypatch.setattr(combiner, "_PATIENCE", 60.0)  # a batch that is slow keeps its lane waiting
    many = 6000
    answers = await publish(
        client, lines(*[{"body": 1, "ordering_key": ordering_key, "delay": 1000 + number} for number in range(many)])
    )
    assert max(most) == together
    assert len(most) > 2
    times = [answer["deliver_at"] for answer in answers]
    assert (len(set(times)), times) == (many, sorted(times)), "in the order of the lines"


@pytest.mark.slow
async def test_batches_are_asked_for_in_their_order(client: httpx.AsyncClient, server: SpiedServer) -> None:
    answers = await publish(client, lines(*[{"body": number} for number in range(20_000)]))
    assert len(server.all("intake.publish_each")) > 9
    assert [int(one.drafts[0].body) for one in asked(server)] == list(range(20_000))
    assert [answer["offset"] for answer in answers] == list(range(20_000))


async def test_an_unknown_topic_is_so_for_each(tmp_path: Path) -> None:
    async with spied(tmp_path / "other.db", Settings(auto_create=False)) as server:
        transport = httpx.ASGITransport(app=server.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8277") as client:
            answers = await publish(client, lines({"body": 1}, {"bdoy": 1}, {"body": 1}))
    assert verdicts(answers) == [("unknown-topic", 1), ("bad-request", 2), ("unknown-topic", 3)]


async def exchange(
    app: ASGIApp,
    *received: Message,
    length: int = 0,
    credit: Credit | None = None,
    until: Callable[[bytearray], bool] | None = None,
) -> bytes:
    """What the app answers who sends this, to the end; or `until` that is true, where nothing comes behind the last."""
    waiting = list(received)
    sent = bytearray()

    async def receive() -> Message:
        if not waiting:
            await trio.sleep_forever()
        return waiting.pop(0)

    async def send(message: Message) -> None:
        sent.extend(message.get("body", b""))

    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": ORDERS,
        "query_string": b"",
        "headers": [(b"content-type", MEDIA_TYPE.encode()), (b"host", b"localhost")],
        CREDIT: credit,
    }
    if length:
        scope["headers"] += [(b"content-length", b"%d" % length)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(app, scope, receive, send)
        if until is not None:
            while not until(sent):
                await trio.sleep(0.002)
            await trio.sleep(0.2)  # for what should not come
            nursery.cancel_scope.cancel()
    return bytes(sent)


def answers_to(lines: int) -> Callable[[bytearray], bool]:
    """Whether so many have their answers."""
    return lambda sent: sent.count(b'"id"') >= lines


def piece(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_lines_that_come_again_when_their_times_are_past(client: httpx.AsyncClient, server: SpiedServer) -> None:
    messages = [
        {"body": 1, "expires_at": "2026-11-21T11:00:00Z", "idempotency_key": "a"},
        {"body": 2, "deliver_between": ["2026-11-21T10:30:00Z", "2026-11-21T11:00:00Z"], "idempotency_key": "b"},
        {"body": 3, "idempotency_key": "c"},
    ]
    first = await publish(client, lines(*messages))
    server.ms += 2 * 3_600_000
    late = {"body": 4, "expires_at": "2026-11-21T11:00:00Z", "idempotency_key": "d"}
    again = await publish(client, lines(messages[0], late, *messages[1:], {**late, "idempotency_key": "a"}))
    assert [again[place]["id"] for place in (0, 2, 3)] == [one["id"] for one in first]
    assert [again[place]["replayed"] for place in (0, 2, 3)] == [True] * 3
    assert verdicts(again)[1] == ("bad-request", 2)
    assert verdicts(again)[4] == ("bad-request", 5)


async def test_an_answer_comes_before_the_request_has_come_whole(app: ASGIApp, server: SpiedServer) -> None:
    sent = await exchange(app, piece(lines({"body": 1}) + b'{"body": 2}'), until=answers_to(1))
    assert sent.count(b'"id"') == 1
    assert len(asked(server)) == 1


async def test_of_a_length_that_is_known_all_comes_before_the_answer(app: ASGIApp, server: SpiedServer) -> None:
    body = lines({"body": 1}, {"body": 2})
    assert not await exchange(app, piece(body), length=len(body) + 1, until=lambda _: len(asked(server)) == 2)
    assert (await exchange(app, piece(body), piece(b"", more=False), length=len(body))).count(b'"id"') == 2


class LittleCredit(Unlimited):
    """As a server has it whose clients take little of their answers."""

    def __init__(self, limit: int) -> None:
        self.limit, self.held = limit, 0

    def hold(self, size: int) -> None:
        if self.held and self.held + size > self.limit:
            raise Overloaded("too much")
        self.held += size

    def free(self, size: int) -> None:
        self.held -= size


async def test_what_may_not_be_held_back_is_sent_before(app: ASGIApp) -> None:
    body = lines(*[{"body": number} for number in range(400)])
    sent = await exchange(app, piece(body), length=len(body) + 1, credit=LittleCredit(50_000), until=answers_to(400))
    assert sent.count(b'"id"') == 400


async def test_the_last_line_of_a_cut_body_is_not_published(app: ASGIApp, server: SpiedServer) -> None:
    sent = await exchange(app, piece(lines({"body": 1}) + b'{"body": 2}'), {"type": "http.disconnect"})
    assert (sent.count(b"\n"), len(asked(server))) == (1, 1)


async def test_the_last_line_of_a_whole_body_needs_no_end(app: ASGIApp, server: SpiedServer) -> None:
    sent = await exchange(app, piece(lines({"body": 1}) + b'{"body": 2}'), piece(b"", more=False))
    assert (sent.count(b"\n"), len(asked(server))) == (2, 2)
