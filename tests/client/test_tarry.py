"""The calls that are neither a publish nor the loop: what goes out and what comes back."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.scripted_server import LOST, Answer, ScriptedServer, problem
from tarry.client import BadRequest, Claim, Message, NotFound, Tarry, TooLate

MESSAGE: dict[str, Any] = {
    "id": "5",
    "topic": "orders",
    "queue": 0,
    "offset": 3,
    "key": "order-7",
    "ordering_key": None,
    "tag": None,
    "headers": None,
    "attempt": 2,
    "published_at": "2026-01-01T00:00:00.000Z",
    "deliver_at": "2026-01-01T00:00:00.250Z",
    "body": {"order": 7},
}
CLAIM = {"claim": "c1", "lease_until": "2026-01-01T00:01:00.000Z", "messages": [MESSAGE]}


def test_cancel(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, {"result": "cancelled"}), problem(409, result="too_late"), problem(404))
    assert tarry.cancel("5") == "cancelled"
    with pytest.raises(TooLate):
        tarry.cancel("5")
    with pytest.raises(NotFound):
        tarry.cancel("6")
    assert (script.requests[0].method, script.requests[0].path) == ("DELETE", "/v1/messages/5")


def test_cancel_after_a_lost_answer(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(LOST, Answer(200, {"result": "cancelled"}))
    assert tarry.cancel("5") == "cancelled"


def test_reschedule(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, {"result": "rescheduled", "id": "5", "deliver_at": "2026-01-01T00:00:00.001Z"}))
    answer = tarry.reschedule("5", deliver_at=datetime(2026, 1, 1, 0, 0, 0, 1000, UTC))
    assert answer.deliver_at == datetime(2026, 1, 1, 0, 0, 0, 1000, UTC)
    assert script.requests[0].method == "PATCH"
    assert script.requests[0].json == {"deliver_at": "2026-01-01T00:00:00.001Z"}


def test_claim(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, CLAIM))
    claim = tarry.claim("orders", "billing", client="me", max=5, wait="2s", lease=timedelta(minutes=1), start="latest")
    assert script.requests[0].json == {"client": "me", "max": 5, "wait": 2000, "lease": 60_000, "from": "latest"}
    assert claim is not None
    assert claim.lease_until == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert claim.messages == (
        Message(
            id="5",
            topic="orders",
            queue=0,
            offset=3,
            body={"order": 7},
            key="order-7",
            attempt=2,
            published_at=datetime(2026, 1, 1, tzinfo=UTC),
            deliver_at=datetime(2026, 1, 1, 0, 0, 0, 250_000, UTC),
        ),
    )
    assert claim.size > 200


def test_a_claim_of_nothing(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, {"claim": None, "messages": []}))
    assert tarry.claim("orders", "billing") is None
    assert script.requests[0].json["client"].count("-") >= 7  # ip-pid-uuid-thread


def test_a_body_of_bytes(script: ScriptedServer, tarry: Tarry) -> None:
    raw = {"body_base64": base64.b64encode(b"\x00\xff").decode(), "content_type": "image/png"}
    record = {name: value for name, value in MESSAGE.items() if name != "body"} | raw
    script.say(Answer(200, CLAIM | {"messages": [record]}))
    claim = tarry.claim("orders", "billing")
    assert claim is not None
    assert (claim.messages[0].body, claim.messages[0].content_type) == (b"\x00\xff", "image/png")


def test_settling(script: ScriptedServer, tarry: Tarry) -> None:
    claim = Claim("c1", "orders", "billing", datetime.now(UTC), ())
    script.say(Answer(200, {"acked": 2}), Answer(200, {"retried": 1, "dead": 1}))
    script.say(Answer(200, {"lease_until": "2026-01-01T00:00:09.000Z"}))
    assert tarry.ack(claim, ["5", "6"]) == 2
    failed = tarry.fail("c1", reason="no", retry_after="10m", count=False)
    assert (failed.retried, failed.dead) == (1, 1)
    assert tarry.extend(claim, "9s") == datetime(2026, 1, 1, 0, 0, 9, tzinfo=UTC)
    assert [(request.path, request.json) for request in script.requests] == [
        ("/v1/claims/c1/ack", {"ids": ["5", "6"]}),
        ("/v1/claims/c1/fail", {"count": False, "reason": "no", "retry_after": "10m"}),
        ("/v1/claims/c1/extend", {"lease": 9000}),
    ]


def test_pull(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, {"messages": [MESSAGE], "next_offset": 4}))
    page = tarry.pull("orders", 0, 3, 1)
    assert script.requests[0].path == "/v1/topics/orders/queues/0/messages?offset=3&max=1&wait=0"
    assert (page.messages[0].offset, page.next_offset) == (3, 4)


def test_dead_letters_page_by_page(script: ScriptedServer, tarry: Tarry) -> None:
    letter = MESSAGE | {"dead_at": "2026-01-01T05:00:00.000Z", "attempts": [{"at": "x", "client": "c", "reason": "r"}]}
    script.say(Answer(200, {"messages": [letter, letter], "cursor": "5"}))
    script.say(Answer(200, {"messages": [letter], "cursor": None}))
    letters = list(tarry.dead("orders", "billing"))
    assert [request.path for request in script.requests] == [
        "/v1/topics/orders/groups/billing/dead",
        "/v1/topics/orders/groups/billing/dead?cursor=5",
    ]
    assert len(letters) == 3
    assert letters[0].attempts[0]["reason"] == "r"
    assert letters[0].message.key == "order-7"


def test_topics_and_groups(script: ScriptedServer, tarry: Tarry) -> None:
    def echo(_: Any) -> Answer:
        return Answer(200, {"name": "x"})

    script.respond = echo
    tarry.put_topic("orders", queues=4, ladder=["10s", "500ms", timedelta(seconds=2)], sequencer="redis")
    tarry.put_group("orders", "billing", ladder=["1s"])
    assert tarry.group("orders", "billing") == tarry.topic("orders") == tarry.message("5") == {"name": "x"}
    assert script.requests[0].json == {"queues": 4, "ladder": ["10s", "500ms", 2000], "sequencer": "redis"}
    assert script.requests[1].json == {"ladder": ["1s"]}


@pytest.mark.parametrize("tarry", ["threads"], indirect=True)
def test_it_says_where_it_leads(script: ScriptedServer, tarry: Tarry) -> None:
    assert repr(tarry) == f"Tarry('{script.url}')"


def test_a_text_is_no_list(tarry: Tarry, script: ScriptedServer) -> None:
    calls: list[Callable[[], object]] = [
        lambda: tarry.ack("1-1-0-0-5", "123"),
        lambda: tarry.fail("1-1-0-0-5", "123"),
        lambda: tarry.redrive("orders", "billing", "123"),
        lambda: tarry.purge("orders", "billing", "123"),
        lambda: tarry.put_topic("orders", ladder="123"),
        lambda: tarry.put_group("orders", "billing", ladder="123"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"is a list, such as \['123'\]"):
            call()
    assert script.requests == []


@pytest.mark.parametrize("nothing", [{"workers": 0}, {"max_cached": 0}, {"max_cached_bytes": 0}], ids=str)
def test_with_no_worker_or_room_nothing_would_be_done(
    tarry: Tarry, script: ScriptedServer, nothing: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="is 1 or more, not 0"):
        tarry.run("orders", "billing", print, **nothing)
    assert script.requests == []


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_leads_elsewhere_is_not_sent(tarry: Tarry, script: ScriptedServer, name: str) -> None:
    # delete_group("orders", "..") would have removed the topic.
    calls: list[Callable[[], object]] = [
        lambda: tarry.delete_group("orders", name),
        lambda: tarry.delete_topic(name),
        lambda: tarry.publish(name, 1),
        lambda: tarry.claim("orders", name),
        lambda: tarry.seek(name, "billing", "latest"),
        lambda: tarry.cancel(name),
    ]
    for call in calls:
        with pytest.raises(BadRequest, match="cannot stand in an address"):
            call()
    assert script.requests == []


@pytest.mark.parametrize("name", [7, None, b"orders"])
def test_a_name_is_text(tarry: Tarry, script: ScriptedServer, name: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: tarry.publish(name, 1),
        lambda: tarry.set_timer("orders", name, 1, delay="1h"),
        lambda: tarry.timer("orders", name),
        lambda: tarry.schedule(name),
    ]
    for call in calls:
        with pytest.raises(BadRequest, match="cannot stand in an address: write text"):
            call()
    assert script.requests == []
