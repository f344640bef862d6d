"""/v1/topics/{topic}/timers/{key}: one message that waits, for each key."""

from typing import Any

import httpx
import pytest

from support.in_one import in_one
from support.spied import NOW, SpiedServer
from support.wrong_input import faults

TIMER = "/v1/topics/orders/timers/order-7"
HOUR = 3_600_000
AT = "2026-11-21T11:00:00.000Z"


async def put(client: httpx.AsyncClient, path: str = TIMER, *, headers: Any = None, **fields: Any) -> httpx.Response:
    return await client.put(path, json={"body": {"order": 7}, "delay": "1h"} | fields, headers=headers)


async def fire(server: SpiedServer, made: httpx.Response) -> None:
    """An hour later its message is in the stream."""
    server.ms += HOUR
    await server.node.promotion.promote([int(made.json()["id"])])


def lasting(made: httpx.Response) -> dict[str, Any]:
    """The answer without how full its second was then, which is told once."""
    return {field: value for field, value in made.json().items() if field != "load"}


async def test_set_look_and_cancel(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.node.loader.recovered.wait()  # it may read once more what comes meanwhile
    made = await put(client)
    assert (made.status_code, made.json()["load"]) == (201, 1)
    answer = lasting(made)
    assert answer == {"id": answer["id"], "key": "order-7", "revision": NOW, "deliver_at": AT, "state": "scheduled"}
    assert made.headers["etag"] == f'"{NOW}"'
    looked = await client.get(TIMER)
    assert (looked.status_code, looked.json(), looked.headers["etag"]) == (200, answer, made.headers["etag"])
    message = (await client.get(f"/v1/messages/{answer['id']}")).json()
    assert (message["key"], message["state"], message["body"]) == ("order-7", "scheduled", {"order": 7})
    assert (await client.delete(TIMER)).json() == {"result": "cancelled"}
    assert (await client.delete(TIMER)).json() == {"result": "cancelled"}
    assert (await client.get(TIMER)).json()["state"] == "cancelled"
    assert len(server.node.pending.wheel) == 0


async def test_pages(client: httpx.AsyncClient, server: SpiedServer) -> None:
    assert (await client.get("/v1/topics/orders/timers")).json()["type"] == "/problems/unknown-topic"
    for key in ("b", "a%2Fb", "%C3%BC"):
        await put(client, f"/v1/topics/orders/timers/{key}")
    first = (await client.get("/v1/topics/orders/timers?max=2")).json()
    assert ([one["key"] for one in first["timers"]], first["cursor"]) == (["a/b", "b"], "b")
    second = (await client.get("/v1/topics/orders/timers", params={"cursor": first["cursor"]})).json()
    assert ([one["key"] for one in second["timers"]], second["cursor"]) == (["ü"], None)
    assert second["timers"] == [(await client.get("/v1/topics/orders/timers/%C3%BC")).json()]
    for wrong in ("max=0", "max=1001", "cursor=" + "k" * 256, "curser=b"):
        assert (await client.get(f"/v1/topics/orders/timers?{wrong}")).status_code == 400, wrong


async def test_another_takes_its_place(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.node.loader.recovered.wait()  # it may read what is replaced meanwhile
    first = (await put(client)).json()
    second = await put(client, delay="2h")
    assert second.status_code == 200
    assert second.json()["replaced"] == first["id"]
    assert (await client.get(f"/v1/messages/{first['id']}")).status_code == 404
    assert len(server.node.pending.wheel) == 1, "nothing stale is left in memory"
    kept = await put(client, mode="keep")
    assert (kept.status_code, kept.json()["id"], kept.json()["kept"]) == (200, second.json()["id"], True)
    assert "kept" not in second.json()
    page = (await client.get("/v1/messages?topic=orders&key=order-7")).json()
    assert [one["id"] for one in page["messages"]] == [second.json()["id"]]
    counts = (await client.get("/v1/topics/orders")).json()
    assert (counts["accepted"], counts["replaced"], counts["pending"]) == (2, 1, 1)


async def test_debounce(client: httpx.AsyncClient, server: SpiedServer) -> None:
    times: list[str] = []
    for _ in range(4):
        times.append((await put(client, mode="debounce", max_wait="90m")).json()["deliver_at"][11:16])
        server.ms += HOUR // 2
    assert times == ["11:00", "11:30", "11:30", "11:30"]


async def test_it_is_too_late(client: httpx.AsyncClient, server: SpiedServer) -> None:
    made = await put(client)
    await fire(server, made)
    looked = (await client.get(TIMER)).json()
    assert (looked["state"], looked["queue"], looked["offset"]) == ("published", 0, 0)
    for no in (await client.delete(TIMER), await put(client, headers={"If-Match": made.headers["etag"]})):
        assert no.status_code == 409
        assert (no.json()["result"], no.json()["queue"], no.json()["offset"]) == ("too_late", 0, 0)
    assert (await put(client)).status_code == 201, "a new one"


async def test_revisions(client: httpx.AsyncClient) -> None:
    made = await put(client)
    again = await put(client, headers={"If-Match": made.headers["etag"]})
    assert again.status_code == 200
    for no in (
        await put(client, headers={"If-Match": made.headers["etag"]}),
        await client.delete(TIMER, headers={"If-Match": made.headers["etag"]}),
        await put(client, headers={"If-None-Match": "*"}),
    ):
        assert no.status_code == 412
        assert (no.json()["revision"], no.json()["executed"]) == (again.json()["revision"], False)
    none = await put(client, "/v1/topics/orders/timers/other", headers={"If-Match": '"1"'})
    assert (none.status_code, none.json()["revision"]) == (412, None)
    assert (await client.delete(TIMER, headers={"If-Match": again.headers["etag"]})).status_code == 200


async def test_the_same_request_again(client: httpx.AsyncClient, server: SpiedServer) -> None:
    named = {"Idempotency-Key": "r1"}
    first = await put(client, headers=named)
    await fire(server, first)
    again = await put(client, headers=named)
    assert again.json() == lasting(first) | {"replayed": True}
    assert (await client.get(TIMER)).json()["state"] == "published"
    assert (await put(client, headers=named, delay="2h")).status_code == 422
    assert (await put(client, TIMER + "1", headers=named)).status_code == 422, "of another key"


@in_one(
    ("fields", "pointer"),
    [
        ({"delay": None}, "/delay"),
        ({"max_wait": "1h"}, "/max_wait"),
        ({"max_wait": "0s", "mode": "debounce"}, "/max_wait"),
        ({"mode": "later"}, "/mode"),
        ({"key": "k"}, "/key"),
        ({"queue": 7}, "/queue"),
    ],
)
async def test_what_is_wrong_is_named(client: httpx.AsyncClient, fields: dict[str, Any], pointer: str) -> None:
    no = await put(client, **fields)
    assert faults(no) == [pointer]


async def test_a_field_of_another_call_is_no_misspelling(client: httpx.AsyncClient) -> None:
    no = await put(client, deliver_between=["a", "b"])
    assert "/deliver_between: unknown field; there are body, " in no.json()["detail"]


@pytest.mark.parametrize("header", [{"If-Match": "7"}, {"If-Match": '"a"'}, {"If-None-Match": '"7"'}])
async def test_conditions_that_are_none(client: httpx.AsyncClient, header: dict[str, str]) -> None:
    assert (await put(client, headers=header)).status_code == 400


async def test_keys_in_a_path(client: httpx.AsyncClient) -> None:
    """Each is its own, of whatever script."""
    for key in ("a%2Fb", "caf%C3%A9", "caf%C3%A8", "%F0%9F%9A%80", "a%20b", "k" * 255):
        assert (await put(client, f"/v1/topics/orders/timers/{key}")).status_code == 201
        assert (await client.get(f"/v1/topics/orders/timers/{key}")).status_code == 200
    for key in ("%2E%2E", "k" * 256):
        assert (await put(client, f"/v1/topics/orders/timers/{key}")).status_code == 400


async def test_unknown(client: httpx.AsyncClient) -> None:
    assert (await client.get(TIMER)).status_code == 404
    await put(client)
    for no in (await client.get(TIMER + "1"), await client.delete(TIMER + "1")):
        assert (no.status_code, no.json()["type"]) == (404, "/problems/unknown-timer")


async def test_a_request_that_comes_again_past_its_expires_at(client: httpx.AsyncClient, server: SpiedServer) -> None:
    once = {"idempotency_key": "once", "expires_at": "2026-11-21T11:30:00Z"}
    made = await put(client, **once)
    await fire(server, made)
    again = await put(client, **once)
    assert (again.status_code, again.json()) == (201, lasting(made) | {"replayed": True})
    server.ms += HOUR
    assert (await put(client, **once)).json() == again.json()
    assert (await put(client, **once | {"idempotency_key": "twice"})).status_code == 400


async def test_cancel_all_of_a_key(client: httpx.AsyncClient, server: SpiedServer) -> None:
    for number in range(3):
        await client.post("/v1/topics/orders/messages", json={"body": number, "key": "order-7"})
        await client.post("/v1/topics/orders/messages", json={"body": number, "key": "order-7", "delay": "1h"})
    await client.post("/v1/topics/orders/messages", json={"body": 9, "key": "order-8", "delay": "1h"})
    await put(client)
    assert (await client.delete("/v1/topics/orders/messages?key=order-7")).json() == {"cancelled": 4, "too_late": 3}
    assert (await client.delete("/v1/topics/orders/messages?key=order-7")).json() == {"cancelled": 0, "too_late": 3}
    assert (await client.delete("/v1/topics/orders/messages")).status_code == 400


async def test_what_fired_is_forgotten_in_time(client: httpx.AsyncClient, server: SpiedServer) -> None:
    made = await put(client)
    await put(client, TIMER + "1", delay="50h")
    await fire(server, made)
    await server.node.timers.forget()
    assert (await client.get(TIMER)).json()["state"] == "published"
    server.ms += server.node.store.window + 1
    await server.node.timers.forget()
    assert (await client.get(TIMER)).status_code == 404
    assert (await client.get(TIMER + "1")).status_code == 200
