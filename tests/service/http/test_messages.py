"""/v1/messages: what the broker's verdicts become."""

import httpx
import pytest

from support.recording_broker import NOW, RecordingBroker, found
from tarry.store.looking.finding import Place, Wanted
from tarry.store.records import Verdict

MESSAGE = "/v1/messages/7"


async def test_a_message_is_told_with_its_life(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.page = [found(body=b'{"a":  1}', headers=b'{"h":"1"}')]
    response = await client.get(MESSAGE)
    assert response.status_code == 200
    assert b'"body":{"a":  1}' in response.content
    assert response.json() == {
        "id": "7",
        "topic": "orders",
        "state": "published",
        "key": "order-7",
        "ordering_key": None,
        "tag": None,
        "headers": {"h": "1"},
        "body": {"a": 1},
        "published_at": "2026-11-21T10:00:00.000Z",
        "deliver_at": "2026-11-21T10:00:00.000Z",
        "queue": 0,
        "offset": 3,
        "life": [
            {"what": "published", "at": "2026-11-21T10:00:00.000Z"},
            {
                "what": "failed",
                "at": "2026-11-21T10:00:00.001Z",
                "group": "billing",
                "client": "c1",
                "attempt": 1,
                "reason": "no ink",
            },
        ],
    }


async def test_bytes_come_back_as_bytes(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.page = [found(body=b"\x00\xff", content_type="image/png")]
    message = (await client.get(MESSAGE)).json()
    assert (message["body_base64"], message["content_type"]) == ("AP8=", "image/png")
    assert "body" not in message


async def test_a_cancelled_message_has_no_body(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.page = [found(state="cancelled", body=None, queue=None, offset=None)]
    message = (await client.get(MESSAGE)).json()
    assert not {"body", "body_base64", "content_type"} & message.keys()


@pytest.mark.parametrize("id_", ["8", "x", "-1", "07", "9223372036854775808", "1" * 5000, "1.0", "%D9%A1"])
async def test_what_is_no_message_is_404(client: httpx.AsyncClient, broker: RecordingBroker, id_: str) -> None:
    broker.verdict = Verdict("not_found")
    for response in (
        await client.get(f"/v1/messages/{id_}"),
        await client.delete(f"/v1/messages/{id_}"),
        await client.patch(f"/v1/messages/{id_}", json={"delay": 5}),
    ):
        assert response.status_code == 404
        assert response.json()["type"] == "/problems/unknown-message"


@pytest.mark.parametrize(
    ("verdict", "status", "result"),
    [
        (Verdict("cancelled"), 200, "cancelled"),
        (Verdict("cancelled", fresh=False), 200, "cancelled"),
        (Verdict("too_late"), 409, "too_late"),
        (Verdict("not_found"), 404, None),
        (Verdict("locked"), 503, None),
    ],
)
async def test_cancel(
    client: httpx.AsyncClient, broker: RecordingBroker, verdict: Verdict, status: int, result: str | None
) -> None:
    broker.verdict = verdict
    response = await client.delete(MESSAGE)
    assert (response.status_code, response.json().get("result")) == (status, result)
    assert broker.calls == [("cancel", 7)]


@pytest.mark.parametrize(
    ("verdict", "status", "result"),
    [
        (Verdict("rescheduled"), 200, "rescheduled"),
        (Verdict("cancelled", fresh=False), 409, "cancelled"),
        (Verdict("too_late"), 409, "too_late"),
        (Verdict("not_found"), 404, None),
    ],
)
async def test_reschedule(
    client: httpx.AsyncClient, broker: RecordingBroker, verdict: Verdict, status: int, result: str | None
) -> None:
    broker.verdict = verdict
    response = await client.patch(MESSAGE, json={"delay": "1h"})
    assert (response.status_code, response.json().get("result")) == (status, result)
    assert broker.calls == [("reschedule", 7, NOW + 3_600_000)]
    if status == 200:
        assert response.json() == {"result": "rescheduled", "id": "7", "deliver_at": "2026-11-21T11:00:00.000Z"}


@pytest.mark.parametrize(
    ("request_", "at"),
    [({"delay": 0}, NOW), ({"deliver_at": "2026-11-21T09:00:00Z"}, NOW - 3_600_000)],
)
async def test_reschedule_to_now_or_the_past(
    client: httpx.AsyncClient, broker: RecordingBroker, request_: dict[str, str | int], at: int
) -> None:
    broker.verdict = Verdict("rescheduled")
    assert (await client.patch(MESSAGE, json=request_)).status_code == 200
    assert broker.calls == [("reschedule", 7, at)]


@pytest.mark.parametrize("request_", [{}, {"delay": 1, "deliver_at": "2026-11-22T09:00:00Z"}, {"delay": "11y"}])
async def test_reschedule_takes_one_time(
    client: httpx.AsyncClient, broker: RecordingBroker, request_: dict[str, str | int]
) -> None:
    response = await client.patch(MESSAGE, json=request_)
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (400, "/delay")
    assert broker.calls == []


async def test_messages_are_found_by_key_page_by_page(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.add_topic("orders")
    broker.page = [found(1), found(2), found(5)]
    query = {"topic": "orders", "key": "order-7", "max": "2"}
    first = (await client.get("/v1/messages", params=query)).json()
    assert ([message["id"] for message in first["messages"]], first["cursor"]) == (["1", "2"], "2")
    second = (await client.get("/v1/messages", params=query | {"cursor": first["cursor"]})).json()
    assert ([message["id"] for message in second["messages"]], second["cursor"]) == (["5"], None)


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("", "bad-request"),
        ("topic=orders", "bad-request"),
        ("key=a", "bad-request"),
        ("topic=orders&key=a&state=acked", "bad-request"),
        ("topic=orders&state=gone", "bad-request"),
        ("topic=orders&key=a&from=noon", "bad-request"),
        ("topic=orders&state=scheduled&cursor=5", "bad-request"),
        ("topic=orders&state=scheduled&cursor=0-9999999999999999999", "bad-request"),
        ("topic=orders&key=", "bad-request"),
        ("topic=a+b&key=a", "bad-request"),
        ("topic=orders&key=a&max=0", "bad-request"),
        ("topic=orders&key=a&max=1001", "bad-request"),
        ("topic=orders&key=a&max=x", "bad-request"),
        ("topic=orders&key=a&cursor=x", "bad-request"),
        ("topic=orders&key=a&key=b", "bad-request"),
        ("topic=orders&key=a&curser=5", "bad-request"),
        ("topic=none&key=a", "unknown-topic"),
    ],
)
async def test_other_ways_to_find_are_refused(
    client: httpx.AsyncClient, broker: RecordingBroker, query: str, kind: str
) -> None:
    broker.add_topic("orders")
    response = await client.get(f"/v1/messages?{query}")
    assert response.json()["type"] == f"/problems/{kind}"
    assert "none" not in broker.known


async def test_by_state_and_time(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.add_topic("orders")
    broker.page = [found(3), found(5)]
    query = {"topic": "orders", "state": "published", "from": "1970-01-01T00:00:01Z", "max": "2", "cursor": "1-7"}
    page = (await client.get("/v1/messages", params=query)).json()
    assert ([message["id"] for message in page["messages"]], page["cursor"]) == (["3", "5"], "1-5")
    assert broker.calls[-1] == ("find", "orders", Wanted("published", 1000, None), Place(1, 7), 2)
    widest = query | {"cursor": "0-9223372036854775807"}
    assert (await client.get("/v1/messages", params=widest)).status_code == 200
    for state in ("claimed", "retrying", "parked", "dead"):
        await client.get("/v1/messages", params={"topic": "orders", "state": state, "cursor": "12345-1025"})
        assert broker.calls[-1] == ("find", "orders", Wanted(state), Place(12345, 1025), 100)


async def test_of_a_key_by_state_and_time(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.add_topic("orders")
    broker.page = [found(3), found(5, state="cancelled", body=None), found(7, deliver_at=NOW + 5)]

    async def ids(**query: str) -> list[str]:
        response = await client.get("/v1/messages", params={"topic": "orders", "key": "order-7"} | query)
        return [message["id"] for message in response.json()["messages"]]

    assert await ids() == ["3", "5", "7"]
    assert await ids(state="cancelled") == ["5"]
    assert await ids(state="published", to="2026-11-21T10:00:00.005Z") == ["3"]
    broker.page.append(found(8, standings=frozenset(["dead"])))
    assert await ids(state="dead") == ["8"]
    assert await ids(state="published") == ["3", "7", "8"]
    assert await ids(to="2026-11-21T10:00:00.005Z") == ["3", "5", "8"]
    assert await ids(**{"from": "2026-11-21T10:00:00.001Z"}) == ["7"]


async def test_upcoming(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.add_topic("orders")
    response = await client.get("/v1/topics/orders/upcoming?buckets=2&width=1m")
    assert response.json() == {
        "width": 60_000,
        "buckets": [
            {"at": "2026-11-21T10:00:00.000Z", "messages": 0},
            {"at": "2026-11-21T10:01:00.000Z", "messages": 1},
        ],
        "counted_until": None,
    }
    await client.get("/v1/topics/orders/upcoming")
    assert broker.calls[-1] == ("upcoming", "orders", None, 3_600_000, 24)
    response = await client.get("/v1/topics/orders/upcoming?from=1970-01-01T00:00:01Z")
    assert response.json()["counted_until"] == "2026-11-21T10:00:00.005Z"
    assert broker.calls[-1:] == [("upcoming", "orders", 1000, 3_600_000, 24)]
    for wrong in ("buckets=0", "buckets=101", "width=1ms", "width=x", "widht=1h"):
        assert (await client.get(f"/v1/topics/orders/upcoming?{wrong}")).status_code == 400
    assert (await client.get("/v1/topics/none/upcoming")).status_code == 404
