"""What a publish sends, and what becomes of one that fails."""

import base64
import functools
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

from support.claimed import a_message
from support.scripted_server import LOST, Answer, Request, ScriptedServer, problem
from tarry.client import BadRequest, Draft, Receipt, Rescheduled, Tarry, TarryError


def accept(request: Request) -> Answer:
    """Takes everything."""

    def receipt(number: int) -> dict[str, Any]:
        return {"id": str(number), "topic": "t", "state": "scheduled", "deliver_at": "2026-01-01T00:00:00.000Z"}

    document = request.json
    if "messages" in document:
        return Answer(201, {"messages": [receipt(number) for number in range(len(document["messages"]))]})
    return Answer(201, receipt(0))


def sent(script: ScriptedServer, tarry: Tarry, body: Any, **options: Any) -> dict[str, Any]:
    """The message as it went over the wire."""
    script.respond = accept
    tarry.publish("orders", body, **options)
    document: dict[str, Any] = script.requests[-1].json
    del document["idempotency_key"]
    return document


@pytest.mark.parametrize("body", [None, True, 7, -0.5, "ü", [], {"a": [1, {"b": None}]}, 2**70, "\N{COLLISION SYMBOL}"])
def test_any_json_value_is_a_body(script: ScriptedServer, tarry: Tarry, body: Any) -> None:
    assert sent(script, tarry, body) == {"body": body}


def test_bytes(script: ScriptedServer, tarry: Tarry) -> None:
    wire = sent(script, tarry, b"\x00\xff", content_type="image/png")
    assert base64.b64decode(wire["body_base64"]) == b"\x00\xff"
    assert wire["content_type"] == "image/png"
    assert sent(script, tarry, b"")["content_type"] == "application/octet-stream"


def test_every_option(script: ScriptedServer, tarry: Tarry) -> None:
    options = {"key": "k", "delay": "10m", "headers": {"a": "b"}, "tag": "t", "ordering_key": "o", "queue": 0}
    assert sent(script, tarry, 1, **options) == {"body": 1, **options}


def test_times_round_up_to_the_millisecond(script: ScriptedServer, tarry: Tarry) -> None:
    local = datetime(2026, 7, 1, 12, 0, 59, 999_001, timezone(timedelta(hours=2)))
    assert sent(script, tarry, 1, deliver_at=local)["deliver_at"] == "2026-07-01T10:01:00.000Z"
    exact = datetime(2026, 7, 1, 12, 0, 0, 250_000, UTC)
    assert sent(script, tarry, 1, deliver_at=exact)["deliver_at"] == "2026-07-01T12:00:00.250Z"
    assert sent(script, tarry, 1, delay=timedelta(microseconds=1001))["delay"] == 2


@pytest.mark.parametrize(
    ("body", "options", "word"),
    [
        (1, {"deliver_at": datetime(2026, 1, 1)}, "zone"),
        (float("nan"), {}, "JSON compliant"),
        ({"a": object()}, {}, "not JSON serializable"),
        ("\ud800", {}, "surrogates"),
        ("text", {"content_type": "text/plain"}, "bytes"),
    ],
)
def test_what_cannot_be_sent_is_refused_here(
    script: ScriptedServer, tarry: Tarry, body: Any, options: dict[str, Any], word: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=word):
        tarry.publish("orders", body, **options)
    assert script.requests == []


def test_each_publish_has_a_key_of_its_own_that_sorts_by_time(script: ScriptedServer, tarry: Tarry) -> None:
    script.respond = accept
    for _ in range(3):
        tarry.publish("orders", 1)
    keys = [request.json["idempotency_key"] for request in script.requests]
    assert len(set(keys)) == 3
    assert [key[:12] for key in keys] == sorted(key[:12] for key in keys)


def test_a_key_of_the_callers(script: ScriptedServer, tarry: Tarry) -> None:
    script.respond = accept
    tarry.publish("orders", 1, idempotency_key="order-7")
    assert script.requests[0].json["idempotency_key"] == "order-7"


def test_batches_by_number(script: ScriptedServer, tarry: Tarry) -> None:
    script.respond = accept
    seen: list[int] = []

    def count(receipts: list[Receipt]) -> None:
        seen.append(len(receipts))

    drafts = (Draft(body=number, key=f"k{number}") for number in range(2001))
    assert len(tarry.publish_many("orders", drafts, on_batch=count)) == 2001
    assert seen == [1000, 1000, 1]
    sent = [message for request in script.requests for message in request.json["messages"]]
    assert sent == [{"body": number, "key": f"k{number}"} for number in range(2001)]
    assert len({request.json["idempotency_key"] for request in script.requests}) == 3


def test_batches_by_size(script: ScriptedServer, tarry: Tarry) -> None:
    script.respond = accept
    tarry.publish_many("orders", [{"body": "x" * 400} for _ in range(10)], max_bytes=1000)
    assert [len(request.json["messages"]) for request in script.requests] == [2] * 5
    assert max(len(request.content) for request in script.requests) < 1100


def test_one_over_the_size_goes_alone(script: ScriptedServer, tarry: Tarry) -> None:
    script.respond = accept
    tarry.publish_many("orders", [{"body": "x" * size} for size in (1, 5000, 1)], max_bytes=1000)
    assert [len(request.json["messages"]) for request in script.requests] == [1, 1, 1]


def test_no_messages_no_request(script: ScriptedServer, tarry: Tarry) -> None:
    assert tarry.publish_many("orders", []) == []
    assert script.requests == []


def test_a_batch_whose_answer_was_lost_is_sent_again_as_it_was(script: ScriptedServer, tarry: Tarry) -> None:
    script.respond = accept
    script.say(LOST)
    tarry.publish_many("orders", [{"body": 1}, {"body": 2}])
    first, second = script.requests
    assert first.content == second.content


def test_an_unknown_field_of_a_dict(tarry: Tarry) -> None:
    with pytest.raises(TypeError, match="bdoy"):
        tarry.publish_many("orders", [{"bdoy": 1}])


def test_on_failure_is_called_and_the_error_raised(script: ScriptedServer) -> None:
    failures: list[tuple[str, Any, TarryError]] = []

    def note(topic: str, body: Any, error: TarryError) -> None:
        failures.append((topic, body, error))

    with Tarry(script.url, on_failure=note) as tarry:
        script.say(problem(400))
        with pytest.raises(BadRequest) as error:
            tarry.publish("orders", {"order": 7})
        assert failures == [("orders", {"order": 7}, error.value)]


def test_a_batch_that_fails_keeps_those_before_it(script: ScriptedServer) -> None:
    failures: list[Any] = []
    landed: list[Receipt] = []

    def note(_topic: str, body: Any, _error: TarryError) -> None:
        failures.append(body)

    script.say(accept(Request("POST", "", b'{"messages": [1, 2]}', {})), problem(413))
    with Tarry(script.url, on_failure=note) as tarry, pytest.raises(BadRequest):
        tarry.publish_many("orders", [{"body": n} for n in range(5)], on_batch=landed.extend, max_messages=2)
    assert len(landed) == 2
    assert failures == [[2, 3]]


@pytest.mark.parametrize(
    ("body", "options", "where"),
    [
        ("\ud800", {}, "body has half a character"),
        ({"a": [1, {"b": "x\udfff"}]}, {}, r"body\.a\[1\]\.b has half a character"),
        ({"\ud800": 1}, {}, "a name in body has half a character"),
        (1, {"key": "\ud800"}, "key has half"),
        (1, {"headers": {"h": "\ud800"}}, r"headers\.h has half"),
    ],
)
def test_half_a_character_is_refused_by_the_name_of_its_field(
    script: ScriptedServer, tarry: Tarry, body: Any, options: dict[str, Any], where: str
) -> None:
    with pytest.raises(ValueError, match=where):
        tarry.publish("orders", body, **options)
    with pytest.raises(ValueError, match=where):
        tarry.publish_many("orders", [Draft(body=0), Draft(body=body, **options)])
    assert script.requests == []
    script.respond = accept
    tarry.publish("orders", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"))


def test_what_names_a_message_is_taken_for_its_id(script: ScriptedServer, tarry: Tarry) -> None:
    receipt = Receipt("7", "orders", "scheduled", datetime.now(UTC))
    for one in ("7", 7, receipt, a_message("7"), Rescheduled("7", receipt.deliver_at)):
        script.say(Answer(200, {"result": "cancelled"}), Answer(200, {"acked": 1}))
        assert tarry.cancel(one) == "cancelled"
        assert tarry.ack("c", [one]) == 1
    assert {request.path for request in script.requests} == {"/v1/messages/7", "/v1/claims/c/ack"}
    assert all(request.json == {"ids": ["7"]} for request in script.requests[1::2])
    nothing: Any = None
    others: tuple[Any, ...] = (nothing, True, 7.0, [receipt])
    for other in others:
        with pytest.raises(
            TypeError,
            match=r"^id: an object of type .* names no message: give its id, its receipt or the message itself",
        ):
            tarry.cancel(other)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            Decimal("9.99"),
            r"^body\.items\[1\]\.it: an object of type Decimal is not JSON serializable: send str\(\) or float\(\)",
        ),
        (UUID(int=7), r"^body\.items\[1\]\.it: an object of type UUID is not .* send str\(\) of it"),
        (datetime.now(UTC), r"type datetime is not .* send its \.isoformat\(\)"),
        (b"x", "type bytes is not .* base64"),
        ({1}, "type set is not .* send a list of it"),
        (Receipt("7", "t", "published", datetime.now(UTC)), r"type Receipt is not .* send its \.document\(\)"),
    ],
)
def test_what_json_has_not_is_named_with_its_place_and_a_remedy(tarry: Tarry, value: Any, said: str) -> None:
    body = {"items": [1, {"it": value}]}
    for publish in (lambda: tarry.publish("t", body), lambda: tarry.publish_many("t", [{"body": body}])):
        with pytest.raises(TypeError, match=said) as refused:
            publish()
        assert "or give Tarry(json=...)" in str(refused.value)


def test_a_receipt_as_json_is_read_as_itself() -> None:
    told = {"id": "7", "topic": "t", "state": "scheduled", "deliver_at": "2026-01-01T00:00:00.000Z", "replayed": True}
    assert Receipt.read(told).document() == told
    assert Receipt.read(told | {"queue": 1, "offset": 2}).document() == told | {"queue": 1, "offset": 2}


@pytest.mark.parametrize("write", [msgspec.json.encode, functools.partial(json.dumps, default=str)])
def test_bodies_may_be_written_by_a_json_of_your_own(
    script: ScriptedServer, write: Callable[[Any], str | bytes]
) -> None:
    body = {"price": Decimal("9.99"), "id": UUID(int=7), "text": "ü"}
    wanted = {"price": "9.99", "id": str(UUID(int=7)), "text": "ü"}
    receipt = {"id": "1", "topic": "t", "state": "published", "deliver_at": "2026-01-01T00:00:00.000Z"}
    with Tarry(script.url, json=write) as tarry:
        script.say(Answer(201, receipt), Answer(201, {"messages": [receipt]}), Answer(201, receipt))
        tarry.publish("t", body, key="k")
        tarry.publish_many("t", [{"body": body, "delay": "1h"}])
        tarry.publish("t", b"as it is")
    single, many, raw = (request.json for request in script.requests)
    assert (single["body"], single["key"], len(single["idempotency_key"])) == (wanted, "k", 32)
    assert many["messages"] == [{"body": wanted, "delay": "1h"}]
    assert raw["body_base64"] == "YXMgaXQgaXM="


def test_a_json_that_gives_no_text_is_told(script: ScriptedServer) -> None:
    with (
        Tarry(script.url, json=lambda body: body) as tarry,
        pytest.raises(TypeError, match=r"^json: it gave an object of type dict"),
    ):
        tarry.publish("t", {})
    assert script.requests == []
