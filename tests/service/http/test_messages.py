"""/v1/messages: what becomes of a message, as HTTP tells it."""

from typing import Any

import httpx
import pytest

from support.in_one import in_one
from support.spied import NOW, SpiedServer
from support.wrong_input import faults
from tarry.service.engine.batching import patience
from tarry.store.looking import upcoming
from tarry.store.looking.finding import PageStart, Wanted
from tarry.store.records import Receipt
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder

MESSAGE = "/v1/messages/7"
HOUR = 3_600_000


def path_of(one: Receipt) -> str:
    return f"/v1/messages/{one.id}"


async def in_state(server: SpiedServer, state: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The id of a message that is in this state."""
    if state == "unknown":
        return 7
    later = {} if state == "published" else {"deliver_at": NOW + 2 * HOUR}
    (receipt,) = await server.publish(await server.topic(), b"null", **later)
    if state == "cancelled":
        await server.node.intake.cancel(receipt.id)
    if state == "locked":  # as it is while another transaction holds its row

        async def lock_none(*_: Any) -> list[Any]:
            return []

        monkeypatch.setattr(timers, "lock_waiting", lock_none)
        monkeypatch.setattr(patience, "_PAUSES", (0.0,))
    return receipt.id


async def test_a_message_is_told_with_its_life(client: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic()
    group = await server.group(topic)
    await server.publish(topic, b"1", b"2", b"3")
    await server.settle(await server.claim(group), "ack")
    (receipt,) = await server.publish(topic, b'{"a":  1}', key="order-7", headers=b'{"h":"1"}')
    claim = await server.claim(group)
    server.ms += 1
    await server.settle(claim, "fail", reason="no ink")
    response = await client.get(path_of(receipt))
    assert response.status_code == 200
    assert b'"body":{"a":  1}' in response.content
    assert response.json() == {
        "id": str(receipt.id),
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
                "what": "claimed",
                "at": "2026-11-21T10:00:00.000Z",
                "group": "billing",
                "client": "c1",
                "attempt": 1,
                "late": 0,
            },
            {
                "what": "failed",
                "at": "2026-11-21T10:00:00.001Z",
                "group": "billing",
                "client": "c1",
                "attempt": 1,
                "reason": "no ink",
            },
            {"what": "retrying", "at": "2026-11-21T10:00:10.001Z", "group": "billing", "attempt": 2},
        ],
    }


async def test_bytes_come_back_as_bytes(client: httpx.AsyncClient, server: SpiedServer) -> None:
    (receipt,) = await server.publish(await server.topic(), b"\x00\xff", content_type="image/png")
    message = (await client.get(path_of(receipt))).json()
    assert (message["body_base64"], message["content_type"]) == ("AP8=", "image/png")
    assert "body" not in message


async def test_a_cancelled_message_has_no_body(client: httpx.AsyncClient, server: SpiedServer) -> None:
    (receipt,) = await server.publish(await server.topic(), b"null", deliver_at=NOW + HOUR)
    assert (await client.get(path_of(receipt))).json()["body"] is None
    await server.node.intake.cancel(receipt.id)
    message = (await client.get(path_of(receipt))).json()
    assert (message["state"], message["topic"]) == ("cancelled", "orders")
    assert not {"body", "body_base64", "content_type"} & message.keys()


@in_one("id_", ["8", "x", "-1", "07", "9223372036854775808", "1" * 5000, "1.0", "%D9%A1"])
async def test_what_is_no_message_is_404(client: httpx.AsyncClient, server: SpiedServer, id_: str) -> None:
    await server.publish(await server.topic(), b"null")
    for response in (
        await client.get(f"/v1/messages/{id_}"),
        await client.delete(f"/v1/messages/{id_}"),
        await client.patch(f"/v1/messages/{id_}", json={"delay": 5}),
        await client.post(f"/v1/messages/{id_}/erase"),
    ):
        assert response.status_code == 404
        assert response.json()["type"] == "/problems/unknown-message"


@pytest.mark.parametrize(
    ("state", "cancel", "reschedule"),
    [
        ("scheduled", (200, "cancelled"), (200, "rescheduled")),
        ("cancelled", (200, "cancelled"), (409, "cancelled")),
        ("published", (409, "too_late"), (409, "too_late")),
        ("unknown", (404, None), (404, None)),
        ("locked", (503, None), (503, None)),
    ],
)
@pytest.mark.parametrize("verb", ["cancel", "reschedule"])
async def test_cancel_and_reschedule(
    client: httpx.AsyncClient,
    server: SpiedServer,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    state: str,
    cancel: tuple[int, str | None],
    reschedule: tuple[int, str | None],
) -> None:
    id_ = await in_state(server, state, monkeypatch)
    path, at = f"/v1/messages/{id_}", "2026-11-21T11:00:00.000Z"
    response = await (client.delete(path) if verb == "cancel" else client.patch(path, json={"delay": "1h"}))
    told = response.json()
    assert (response.status_code, told.get("result")) == (cancel if verb == "cancel" else reschedule)
    assert server.all(f"intake.{verb}") == [(id_,) if verb == "cancel" else (id_, NOW + HOUR)]
    if response.status_code == 200 and verb == "cancel":
        assert (await client.get(path)).json()["state"] == "cancelled"
    elif response.status_code == 200:
        assert told == {"result": "rescheduled", "id": str(id_), "deliver_at": at}
        assert (await client.get(path)).json()["deliver_at"] == at


@pytest.mark.parametrize(
    ("request_", "at"), [({"delay": 0}, NOW), ({"deliver_at": "2026-11-21T09:00:00Z"}, NOW - HOUR)]
)
async def test_reschedule_to_now_or_the_past(
    client: httpx.AsyncClient, server: SpiedServer, request_: dict[str, str | int], at: int
) -> None:
    (receipt,) = await server.publish(await server.topic(), b"null", deliver_at=NOW + HOUR)
    assert (await client.patch(path_of(receipt), json=request_)).status_code == 200
    assert server.all("intake.reschedule") == [(receipt.id, at)]


@pytest.mark.parametrize("request_", [{}, {"delay": 1, "deliver_at": "2026-11-22T09:00:00Z"}, {"delay": "11y"}])
async def test_reschedule_takes_one_time(
    client: httpx.AsyncClient, server: SpiedServer, request_: dict[str, str | int]
) -> None:
    response = await client.patch(MESSAGE, json=request_)
    assert faults(response) == ["/delay"]
    assert server.asked == []


async def test_messages_are_found_by_key_page_by_page(client: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic()
    receipts = await server.publish(topic, b"1", b"2", b"3", key="order-7")
    await server.publish(topic, b"4", key="order-8")
    ids = [str(id_) for id_ in sorted(receipt.id for receipt in receipts)]
    query = {"topic": "orders", "key": "order-7", "max": "2"}
    first = (await client.get("/v1/messages", params=query)).json()
    assert ([message["id"] for message in first["messages"]], first["cursor"]) == (ids[:2], ids[1])
    second = (await client.get("/v1/messages", params=query | {"cursor": first["cursor"]})).json()
    assert ([message["id"] for message in second["messages"]], second["cursor"]) == (ids[2:], None)


REFUSED = {
    "": ["", "key=a", "topic=orders&key=", "topic=a+b&key=a", "topic=orders&state=gone"],
    "topic=orders&key=a&": [
        *["state=acked", "from=noon", "max=0", "max=1001", "max=x"],
        *["cursor=x", "curser=5", "key=b"],
    ],
    "topic=orders&state=scheduled&cursor=": ["5", "0-9999999999999999999"],
    "topic=orders&cursor=": ["5", "w5", "wq0-9999999999999999999", "w9999999999999999999q0"],
}


@in_one(
    ("query", "kind"),
    [
        *((begin + end, "bad-request") for begin, ends in REFUSED.items() for end in ends),
        ("topic=none&key=a", "unknown-topic"),
    ],
)
async def test_other_ways_to_find_are_refused(
    client: httpx.AsyncClient, server: SpiedServer, query: str, kind: str
) -> None:
    await server.topic()
    response = await client.get(f"/v1/messages?{query}")
    assert response.json()["type"] == f"/problems/{kind}"
    assert [topic["topic"] for topic in (await client.get("/v1/topics")).json()["topics"]] == ["orders"]


async def test_by_state_and_time(client: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic(queues=2)
    await server.publish(topic, *[b"0"] * 10)
    receipts = await server.publish(topic, *[b"1"] * 10, queue=topic.queues[1])
    query = {"topic": "orders", "state": "published", "from": "1970-01-01T00:00:01Z", "max": "2", "cursor": "1-7"}
    page = (await client.get("/v1/messages", params=query)).json()
    ids = [str(receipt.id) for receipt in receipts]
    assert ([message["id"] for message in page["messages"]], page["cursor"]) == (ids[7:9], "1-9")
    assert server.all("store.find")[-1][1:] == (topic, Wanted("published", 1000, None), PageStart(1, 7), 2)
    widest = query | {"cursor": "0-9223372036854775807"}
    assert (await client.get("/v1/messages", params=widest)).status_code == 200
    for state in ("claimed", "retrying", "parked", "dead"):
        await client.get("/v1/messages", params={"topic": "orders", "state": state, "cursor": "12345-1025"})
        assert server.all("store.find")[-1][1:] == (topic, Wanted(state), PageStart(12345, 1025), 100)


async def test_all_of_a_topic(client: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic(queues=2)
    waits = await server.publish(topic, *[b"1"] * 3, deliver_at=NOW + 60_000)
    streamed = await server.publish(topic, *[b"2"] * 4)
    await server.publish(await server.topic("others"), b"3")
    pages: list[list[str]] = []
    cursor: str | None = ""
    while cursor is not None:
        more = {"cursor": cursor} if cursor else {}
        page = (await client.get("/v1/messages", params={"topic": "orders", "max": "2", **more})).json()
        pages.append([message["state"] for message in page["messages"]])
        cursor = page["cursor"]
    assert pages == [["scheduled", "published"]] * 3 + [["published"]]
    whole = (await client.get("/v1/messages", params={"topic": "orders"})).json()
    assert [one["id"] for one in whole["messages"]] == [
        *(str(receipt.id) for receipt in sorted(waits, key=lambda receipt: receipt.id)),
        *(str(receipt.id) for receipt in reversed(streamed)),
    ]
    assert whole["cursor"] is None
    far = await client.get("/v1/messages", params={"topic": "orders", "cursor": "w9223372036854775807q999999999-5"})
    assert far.json() == {"messages": [], "cursor": None}


async def test_of_a_key_by_state_and_time(client: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic()
    group, _ = await server.node.catalogue.put_group(topic, "billing", Ladder(()))
    names: dict[str, str] = {}

    async def publish(name: str, deliver_at: int | None = None) -> str:
        (receipt,) = await server.publish(topic, b"null", key="order-7", deliver_at=deliver_at)
        names[str(receipt.id)] = name
        return path_of(receipt)

    async def found(**query: str) -> set[str]:
        response = await client.get("/v1/messages", params={"topic": "orders", "key": "order-7"} | query)
        ids = [message["id"] for message in response.json()["messages"]]
        assert ids == sorted(ids, key=int)
        return {names[id_] for id_ in ids}

    server.ms = NOW - 5
    await client.delete(await publish("cancelled", NOW))
    server.ms = NOW
    await publish("now")
    await server.settle(await server.claim(group), "ack")
    later = await publish("later", NOW + 5)
    server.ms = NOW + 5
    while (await client.get(later)).json()["state"] != "published":
        await server.node.dispatcher.turned()
    # Whoever looks sees it once it is committed; whoever claims hears of it a moment later.
    await server.settle(await server.claim(group, wait=60_000), "ack")

    assert await found() == {"now", "cancelled", "later"}
    assert await found(state="cancelled") == {"cancelled"}
    assert await found(state="published", to="2026-11-21T10:00:00.005Z") == {"now"}
    await publish("dead", NOW)
    await server.settle(await server.claim(group), "fail")
    assert await found(state="dead") == {"dead"}
    assert await found(state="published") == {"now", "later", "dead"}
    assert await found(to="2026-11-21T10:00:00.005Z") == {"now", "cancelled", "dead"}
    assert await found(**{"from": "2026-11-21T10:00:00.001Z"}) == {"later"}


async def test_upcoming(client: httpx.AsyncClient, server: SpiedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await server.topic()
    await server.publish(topic, b"null", deliver_at=NOW + 60_000)
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
    assert server.all("forecast.upcoming")[-1] == (topic, NOW, HOUR, 24)
    assert server.asked[-1].kwargs == {"overdue": True}
    monkeypatch.setattr(upcoming, "_AHEAD", 1)  # of a shard, and there are sixteen
    await server.publish(topic, *[b"null"] * 33, deliver_at=NOW + 5)
    response = await client.get("/v1/topics/orders/upcoming?from=2026-11-21T09:00:00Z")
    assert response.json()["counted_until"] == "2026-11-21T10:00:00.005Z"
    assert server.all("forecast.upcoming")[-1] == (topic, NOW - HOUR, HOUR, 24)
    assert server.asked[-1].kwargs == {"overdue": False}
    for wrong in ("buckets=0", "buckets=101", "width=1ms", "width=x", "widht=1h"):
        assert (await client.get(f"/v1/topics/orders/upcoming?{wrong}")).status_code == 400
    assert (await client.get("/v1/topics/none/upcoming")).status_code == 404


class TestErase:
    async def test_what_a_group_is_given_then(self, client: httpx.AsyncClient, server: SpiedServer) -> None:
        topic = await server.topic()
        group = await server.group(topic)
        (receipt,) = await server.publish(topic, b'{"name":"Ada"}', key="order-7", headers=b'{"h":"Ada"}')
        await server.settle(await server.claim(group), "fail", reason="Ada is unknown")
        server.ms += 5
        response = await client.post(f"{path_of(receipt)}/erase")
        at = "2026-11-21T10:00:00.005Z"
        assert (response.status_code, response.json()) == (
            200,
            {"id": str(receipt.id), "erased_at": at, "lake": "none", "lake_at": None},
        )
        server.ms += 1000
        assert (await client.post(f"{path_of(receipt)}/erase")).json() == response.json()
        told = (await client.get(path_of(receipt))).json()
        assert (told["erased_at"], told["key"], told["headers"]) == (at, "order-7", None)
        assert not {"body", "body_base64", "content_type"} & told.keys()
        assert [line["what"] for line in told["life"]] == ["published", "claimed", "failed", "retrying"]
        (pulled,) = (await client.get("/v1/topics/orders/queues/0/messages")).json()["messages"]
        assert pulled["erased_at"] == at
        assert not {"body", "body_base64", "content_type"} & pulled.keys()
        (found,) = (await client.get("/v1/messages?topic=orders&key=order-7")).json()["messages"]
        assert found["erased_at"] == at
        assert "Ada" not in f"{told} {pulled} {found}"

    async def test_one_that_waits_is_cancelled_first(self, client: httpx.AsyncClient, server: SpiedServer) -> None:
        (receipt,) = await server.publish(await server.topic(), b"null", deliver_at=NOW + HOUR)
        refused = await client.post(f"{path_of(receipt)}/erase")
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/still-waits")
        assert (refused.json()["result"], refused.json()["executed"]) == ("waiting", False)
        assert (await client.get(path_of(receipt))).json()["body"] is None
        assert (await client.delete(path_of(receipt))).status_code == 200
        assert (await client.post(f"{path_of(receipt)}/erase")).status_code == 200
        told = (await client.get(path_of(receipt))).json()
        assert (told["state"], told["erased_at"]) == ("cancelled", "2026-11-21T10:00:00.000Z")

    async def test_dead_letters(self, client: httpx.AsyncClient, server: SpiedServer) -> None:
        topic = await server.topic()
        group = await server.group(topic, ladder=Ladder(()))
        (receipt,) = await server.publish(topic, b'"Ada"')
        await server.settle(await server.claim(group), "fail", reason="Ada is unknown")
        await client.post(f"{path_of(receipt)}/erase")
        (letter,) = (await client.get("/v1/topics/orders/groups/billing/dead")).json()["messages"]
        assert letter["erased_at"] == "2026-11-21T10:00:00.000Z"
        assert "body" not in letter
        assert [(one["client"], one["reason"]) for one in letter["attempts"]] == [("c1", None)]

    async def test_what_only_the_lake_may_have(self, client: httpx.AsyncClient, server: SpiedServer) -> None:
        await server.store.write(lambda tx: tx.execute_many("lease.add", [(b"lake", b"of ours", 0, 0)]))
        response = await client.post("/v1/messages/8/erase")
        assert (response.status_code, response.json()["lake"]) == (202, "pending")
        assert (await client.get("/v1/messages/8")).status_code == 404
