"""Rows of messages that somebody has spoilt by SQL: the answers they are a part of can be read, and hold the others."""

import base64
import itertools
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from support.in_one import in_one
from support.nodes import name_of
from support.spied import SpiedServer
from tarry.client.records import Message
from tarry.wheel.ladder import Ladder

NO_JSON = {
    "nan": b'{"price":NaN}',
    "empty": b"",
    "byte order mark": b"\xef\xbb\xbf{}",
    "latin": b'"\xe9"',
    "half a pair": b'"\\ud800"',
    "two values": b"1 2",
    "other members": b'1,"delay":5',
    "the end of the message": b'1},{"id":"7"',
    "the end of the list": b"1}]}",
    "cut off": b'{"a":',
    "bytes": bytes(range(256)),
    "too deep": b"[" * 50_000 + b"]" * 50_000,
}
LABELS = ("key", "ordering_key", "tag")
FAR = (1 << 62, -(1 << 62))


@pytest.fixture
def spoil(tmp_path: Path) -> Callable[..., None]:
    def spoil(statement: str, *values: Any) -> None:
        with closing(sqlite3.connect(tmp_path / "tarry.db", timeout=10)) as connection:
            connection.execute(statement, values)
            connection.commit()

    return spoil


def strictly(response: httpx.Response) -> Any:
    """The answer as a reader has it who knows JSON and nothing else."""
    assert response.status_code == 200, response.text

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    document = json.loads(response.content.decode(), parse_constant=refuse)
    assert msgspec.json.decode(response.content) == document
    return document


class Orders:
    """Three messages of a topic, all that there is of it; the second may be spoilt."""

    def __init__(self, client: httpx.AsyncClient, server: SpiedServer, spoil: Callable[..., None]) -> None:
        self.client, self.server, self._spoil = client, server, spoil

    async def spoilt(self, assignments: str, *values: Any) -> list[dict[str, Any]]:
        """The second, once it is, as every call tells it that tells messages; the others are as they were."""
        await self.client.delete("/v1/topics/orders", params={"force": "true"})
        topic = await self.server.topic(ladder=Ladder(()))
        headers = {"headers": b'{"a":"b"}', "key": "k", "ordering_key": "o", "tag": "t"}
        ids = [str(receipt.id) for receipt in await self.server.publish(topic, b"1", b"2", b"3", **headers)]
        self._spoil(f"UPDATE message SET {assignments} WHERE id = ?", *values, int(ids[1]))
        return await self._told(ids)

    async def _told(self, ids: list[str]) -> list[dict[str, Any]]:
        client, group = self.client, "/v1/topics/orders/groups/billing"
        pulled = strictly(await client.get("/v1/topics/orders/queues/0/messages"))["messages"]
        published = {"topic": "orders", "state": "published"}
        listed = strictly(await client.get("/v1/messages", params=published))["messages"]
        single = [strictly(await client.get(f"/v1/messages/{id_}")) for id_ in ids]
        claim = strictly(await client.post(f"{group}/claim", json={"client": "c1"}))
        failed = await client.post(f"/v1/claims/{claim['claim']}/fail", json={})
        assert strictly(failed) == {"retried": 0, "dead": 3}
        dead = strictly(await client.get(f"{group}/dead"))["messages"]
        found: list[dict[str, Any]] = []
        for messages in (pulled, listed, single, claim["messages"], dead):
            by_id = {one["id"]: one for one in messages}
            assert sorted(by_id) == sorted(ids)
            assert [by_id[ids[0]]["body"], by_id[ids[2]]["body"]] == [1, 3]
            assert by_id[ids[0]]["headers"] == {"a": "b"}
            found.append(by_id[ids[1]])
        assert [Message.read(one, "orders").id for one in claim["messages"]] == ids
        return found


@pytest.fixture
def orders(client: httpx.AsyncClient, server: SpiedServer, spoil: Callable[..., None]) -> Orders:
    return Orders(client, server, spoil)


@pytest.mark.slow
@in_one("name", NO_JSON)
async def test_a_body_that_is_no_json_goes_as_bytes(orders: Orders, name: str) -> None:
    for told in await orders.spoilt("body = ?", NO_JSON[name]):
        assert "body" not in told
        assert base64.b64decode(told["body_base64"]) == NO_JSON[name]
        assert told["content_type"] == "application/octet-stream"


@in_one("headers", [b"", b"x", b'{"a":1}', b'["a"]', b'{"a":"\xff"}', b'{"a":"b"},"key":"c"', b"null"])
async def test_headers_that_are_none_are_null(orders: Orders, headers: bytes) -> None:
    for told in await orders.spoilt("headers = ?", headers):
        assert (told["headers"], told["body"]) == (None, 2)


@in_one("label", LABELS)
async def test_a_label_that_is_no_text_is_told_as_far_as_it_can_be_read(orders: Orders, label: str) -> None:
    for told in await orders.spoilt(f"{label} = ?", b"order-\xff7"):
        assert (told[label], told["body"]) == ("order-\ufffd7", 2)


@in_one("content_type", [b"", b"\xff", b" erased ", b" erased x", b" erased -1", b" erased " + b"9" * 99])
async def test_a_content_type_that_is_none_keeps_its_bytes(orders: Orders, content_type: bytes) -> None:
    for told in await orders.spoilt("content_type = ?", content_type):
        assert base64.b64decode(told["body_base64"]) == b"2"


@in_one(("column", "at"), itertools.product(["accepted_at", "deliver_at", "streamed_at"], FAR))
async def test_a_time_that_is_none_stops_nobody(orders: Orders, column: str, at: int) -> None:
    for told in await orders.spoilt(f"{column} = ?", at):
        assert told["body"] == 2
        assert {told["published_at"][:4], told["deliver_at"][:4]} <= {"2026", "0001", "9999"}


async def test_what_is_written_as_text_is_what_its_bytes_are(orders: Orders) -> None:
    for told in await orders.spoilt("""body = '{"ü":2}', headers = '{"c":"d"}', `key` = 'ü'"""):
        assert (told["body"], told["headers"], told["key"]) == ({"ü": 2}, {"c": "d"}, "ü")


@pytest.mark.parametrize("history", [b"", b"x", b"{}", b"[1]", b'[{"at":"x"}]', b'[{"at":1e99}]', b"[\xff]"])
async def test_a_history_that_cannot_be_read_stops_nobody(
    client: httpx.AsyncClient, server: SpiedServer, spoil: Callable[..., None], history: bytes
) -> None:
    topic = await server.topic(ladder=Ladder((1000,)))
    receipts = await server.publish(topic, b"1", b"2", b"3")
    claim = await server.claim(await server.group(topic))
    failed = await client.post(f"/v1/claims/{name_of(claim)}/fail", json={"retry_after": 0})
    assert strictly(failed) == {"retried": 3, "dead": 0}
    for table in ("retry", "redelivery"):  # the hand takes it from the one to the other at once
        spoil(f"UPDATE {table} SET history = ? WHERE message_id = ?", history, receipts[1].id)  # of two
    for receipt in receipts:
        strictly(await client.get(f"/v1/messages/{receipt.id}"))
    again = await server.claim(await server.group(topic), wait=5000)
    failed = await client.post(f"/v1/claims/{name_of(again)}/fail", json={"reason": "declined"})
    assert strictly(failed) == {"retried": 0, "dead": 3}
    spoil("UPDATE dead SET history = ? WHERE id = ?", history, receipts[2].id)
    dead = strictly(await client.get("/v1/topics/orders/groups/billing/dead"))["messages"]
    reasons = {one["id"]: [attempt["reason"] for attempt in one["attempts"]] for one in dead}
    lost = "what was remembered of earlier attempts cannot be read"
    assert [reasons[str(receipt.id)] for receipt in receipts] == [[None, "declined"], [lost, "declined"], [lost]]
    found = strictly(await client.get("/v1/topics/orders/groups/billing/dead", params={"reason": "declined"}))[
        "messages"
    ]
    assert {one["id"] for one in found} == {str(receipt.id) for receipt in receipts[:2]}


async def test_a_schedule_that_is_written_over_is_listed_set_anew_and_removed(
    client: httpx.AsyncClient, server: SpiedServer, spoil: Callable[..., None]
) -> None:
    wish = {"every": "1h", "topic": "orders", "body": 1}
    for name in ("a", "b", "c"):
        assert (await client.put(f"/v1/schedules/{name}", json=wish)).status_code == 201
    spoil("UPDATE schedule SET spec = ? WHERE name = ?", b"\xff", b"a")
    spoil("UPDATE schedule SET spec = ? WHERE name = ?", b'{"topic":"orders","cron":"x"}', b"b")
    listed = strictly(await client.get("/v1/schedules"))["schedules"]
    assert [(one["name"], len(one["next"])) for one in listed] == [("a", 0), ("b", 0), ("c", 5)]
    for name in ("a", "b"):
        refused = await client.get(f"/v1/schedules/{name}")
        assert refused.status_code == 400
        assert (await client.put(f"/v1/schedules/{name}", json=wish)).status_code == 200
        assert len(strictly(await client.get(f"/v1/schedules/{name}"))["next"]) == 5
    spoil("UPDATE schedule SET spec = ? WHERE name = ?", b"", b"a")
    assert (await client.delete("/v1/schedules/a")).status_code == 200
    assert len(strictly(await client.get("/v1/schedules"))["schedules"]) == 2
