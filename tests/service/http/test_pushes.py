"""Push over HTTP: what may be set, and that nothing tells a secret."""

from base64 import b64encode
from typing import Any

import httpx
import pytest
import structlog

from support.in_one import in_one
from support.spied import SpiedServer
from support.wrong_input import faults
from tarry.service.settings import Settings

PUSH = "/v1/topics/orders/groups/billing/push"
SECRET = "whsec_" + b64encode(b"never to be seen again, ever").decode()
OTHER = "whsec_" + b64encode(bytes(64)).decode()
GIVEN = {"url": "https://hooks.invalid/in?token=7", "secret": SECRET}


@pytest.fixture
def settings() -> Settings:
    return Settings(push_allow=("10.1.0.0/16",))


async def test_set_changed_looked_at_and_removed(client: httpx.AsyncClient, server: SpiedServer) -> None:
    made = await client.put(PUSH, json=GIVEN)
    assert made.status_code == 201
    assert made.json() == {
        "topic": "orders",
        "group": "billing",
        "url": GIVEN["url"],
        "timeout": 10_000,
        "max_in_flight": 10,
        "secrets": 1,
        "changed_at": "2026-11-21T10:00:00.000Z",
        "state": "on",
        "since": None,
        "because": None,
    }
    assert (await client.get(PUSH)).json() == made.json()
    changed = await client.put(
        PUSH, json={"url": "http://10.1.2.3/", "secret": [SECRET, OTHER], "timeout": "2s", "max_in_flight": 1}
    )
    assert changed.status_code == 200
    told = changed.json()
    assert (told["url"], told["secrets"], told["timeout"], told["max_in_flight"]) == ("http://10.1.2.3/", 2, 2000, 1)
    assert told["changed_at"] > made.json()["changed_at"]
    removed = await client.delete(PUSH)
    assert (removed.status_code, removed.json()["result"]) == (200, "removed")
    for answer in (await client.get(PUSH), await client.delete(PUSH)):
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/unknown-push")
    assert (await client.get("/v1/topics/orders/groups/billing")).status_code == 200, "the group stays"


@pytest.mark.slow
async def test_nothing_tells_a_secret(client: httpx.AsyncClient, server: SpiedServer) -> None:
    bare = SECRET.removeprefix("whsec_")
    with structlog.testing.capture_logs() as logged:
        answers = [
            await client.put(PUSH, json=GIVEN),
            await client.put(PUSH, json=GIVEN | {"secret": bare}),
            await client.put(PUSH, json=GIVEN | {"secret": [SECRET, bare]}),
            await client.put(PUSH, json=GIVEN | {"secret": {"is": bare}}),
            await client.put(PUSH, json=GIVEN | {bare: 1, "url": 7}),
            await client.get(PUSH),
            await client.get("/v1/topics/orders/groups/billing"),
            await client.get("/openapi.json"),
            await client.delete(PUSH),
        ]
    assert [answer.status_code for answer in answers][:4] == [201, 400, 400, 400]
    assert [
        answer.status_code for answer in answers if bare in answer.text and b"unknown field" not in answer.content
    ] == []
    assert bare not in str(logged)
    assert "token=7" not in str(logged)
    row = await server.store.read(push_find, 1)
    assert bare not in repr(row)


async def push_find(tx: Any, group_id: int) -> Any:
    from tarry.store.groups import push

    return await push.find(tx, group_id)


@in_one(
    ("given", "pointer"),
    [
        ({"url": "https://127.0.0.1/"}, "/url"),
        ({"url": "https://169.254.169.254/latest"}, "/url"),
        ({"url": "http://hooks.example.com@10.1.0.1/"}, "/url"),
        ({"url": "http://8.8.8.8/"}, "/url"),
        ({"url": ""}, "/url"),
        ({"secret": "hunter2"}, "/secret"),
        ({"secret": [SECRET, "hunter2"]}, "/secret/1"),
        ({"secret": []}, "/secret"),
        ({"timeout": "99ms"}, "/timeout"),
        ({"timeout": "6m"}, "/timeout"),
        ({"timeout": "soon"}, "/timeout"),
        ({"max_in_flight": 0}, "/max_in_flight"),
        ({"max_in_flight": 1001}, "/max_in_flight"),
    ],
)
async def test_bad_input(client: httpx.AsyncClient, given: dict[str, Any], pointer: str) -> None:
    answer = await client.put(PUSH, json=GIVEN | given)
    assert faults(answer) == [pointer]
    assert (await client.get(PUSH)).status_code == 404, "nothing was done"


@pytest.mark.parametrize("missing", ["url", "secret"])
async def test_both_are_needed(client: httpx.AsyncClient, missing: str) -> None:
    answer = await client.put(PUSH, json={name: value for name, value in GIVEN.items() if name != missing})
    assert answer.status_code == 400


async def test_a_broadcast_topic_has_none(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.topic("news", kind="broadcast")
    answer = await client.put("/v1/topics/news/groups/billing/push", json=GIVEN)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/topic-conflict")
    assert (await client.get("/v1/topics/news/groups/billing")).status_code == 404


async def test_it_goes_with_its_group(client: httpx.AsyncClient, server: SpiedServer) -> None:
    for path in ("/v1/topics/orders/groups/billing", "/v1/topics/orders?force=true"):
        await client.put(PUSH, json=GIVEN)
        assert (await client.delete(path)).status_code == 200
        assert (await client.get(PUSH)).status_code == 404
        assert (await client.put("/v1/topics/orders/groups/billing", json={})).status_code == 201
        assert (await client.get(PUSH)).status_code == 404
