"""Every no is a problem after RFC 9457, with the right status, and without a word about the insides."""

from typing import Any

import httpx
import pytest
import structlog

from support.in_one import in_one
from support.spied import SpiedServer
from tarry.service import errors
from tarry.service.http.problems import KINDS, problem_of
from tarry.store import errors as store

MESSAGE = "/v1/messages/7"
SECRET = "SELECT password FROM host db.internal"


def problem(response: httpx.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == response.status_code
    kind = body["type"].removeprefix("/problems/")
    assert KINDS[kind] == (body["status"], body["title"])
    assert body["detail"]
    return body


@in_one(
    ("error", "kind", "retry", "executed"),
    [
        (errors.Busy("held"), "busy", True, False),
        (errors.Overloaded(), "overloaded", True, False),
        (errors.Stopping("going"), "stopping", True, False),
        (store.Unavailable(SECRET), "store-unavailable", True, False),
        (store.ReadOnly(SECRET, 1290), "store-unavailable", True, False),
        (store.Full(SECRET, 1040), "store-unavailable", True, False),
        (store.Contention(SECRET, 1213), "busy", True, False),
        (store.OutcomeUnknown(SECRET, 2013), "outcome-unknown", True, None),
        (store.StoreError(SECRET), "internal", False, None),
        (store.DuplicateKey(SECRET), "internal", False, None),
        (RuntimeError(SECRET), "internal", False, None),
        (ExceptionGroup(SECRET, [KeyError(SECRET)]), "internal", False, None),
    ],
)
async def test_what_the_node_raises(
    client: httpx.AsyncClient, server: SpiedServer, error: Exception, kind: str, retry: bool, executed: bool | None
) -> None:
    server.errors["*"] = error
    with structlog.testing.capture_logs() as logs:
        response = await client.delete(MESSAGE)
    body = problem(response)
    assert body["type"] == f"/problems/{kind}"
    assert (body.get("executed"), "retry-after" in response.headers) == (executed, retry)
    if retry:
        assert int(response.headers["retry-after"]) > 0
    assert SECRET not in response.text
    if kind == "internal":
        (entry,) = [entry for entry in logs if entry["event"] == "request_failed"]
        assert (entry["request_id"], entry["exc_info"]) == (body["request_id"], error)


@in_one(
    ("error", "kind"),
    [
        (errors.UnknownTopic("no topic 'orders'"), "unknown-topic"),
        (errors.UnknownGroup("no group"), "unknown-group"),
        (errors.NotBuilt("broadcast is not built yet"), "not-built"),
        (errors.TopicConflict("queues are never taken away"), "topic-conflict"),
        (store.Refused(SECRET, 1406), "bad-request"),
    ],
)
async def test_what_the_node_refuses(
    client: httpx.AsyncClient, server: SpiedServer, error: Exception, kind: str
) -> None:
    await server.topic()
    server.errors |= {"catalogue.put_topic": error, "catalogue.put_group": error}
    path = "/v1/topics/orders/groups/g" if kind.endswith(("group", "topic")) else "/v1/topics/orders"
    body = problem(await client.put(path, json={"ladder": []}))
    assert body["type"] == f"/problems/{kind}"
    assert SECRET not in body["detail"]
    assert "executed" not in body


async def test_an_unknown_claim(client: httpx.AsyncClient, server: SpiedServer) -> None:
    for name in ("x" * 5000, "%C3%A9", "%0A"):
        assert problem(await client.post(f"/v1/claims/{name}/ack"))["type"] == "/problems/unknown-claim"
    assert server.asked == []
    assert problem(await client.post("/v1/claims/x/ack"))["type"] == "/problems/unknown-claim"


@in_one("path", ["/v1", "/v1/messages/", "/v1/topics/a/b", "/v2/topics", "/v1/topics/orders/", "/v1/timers", "/%00"])
async def test_an_unknown_path(client: httpx.AsyncClient, path: str) -> None:
    assert problem(await client.get(path))["type"] == "/problems/not-found"


@in_one(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/topics/orders", {"GET", "HEAD", "PUT", "DELETE"}),
        ("PUT", MESSAGE, {"GET", "HEAD", "DELETE", "PATCH"}),
        ("GET", "/v1/claims/x/ack", {"POST"}),
        ("POST", "/livez", {"GET", "HEAD"}),
        ("BREW", "/v1/topics", {"GET", "HEAD"}),
    ],
)
async def test_an_unknown_method(client: httpx.AsyncClient, method: str, path: str, allowed: set[str]) -> None:
    response = await client.request(method, path)
    assert problem(response)["type"] == "/problems/method-not-allowed"
    assert set(response.headers["allow"].split(", ")) == allowed


@in_one(
    ("method", "path"),
    [
        ("PUT", "/v1/topics/orders/timers/caf%e9"),
        ("GET", "/v1/topics/orders/timers/caf%C3"),
        ("DELETE", "/v1/topics/orders/messages?key=caf%e6"),
        ("GET", "/v1/messages?topic=orders&key=%ff"),
        ("PUT", "/v1/topics/%e9"),
    ],
)
async def test_an_address_that_is_not_utf_8(client: httpx.AsyncClient, method: str, path: str) -> None:
    """No byte is taken for another one: two keys would be the same."""
    response = await client.request(method, path, json={"body": 1} if method == "PUT" else None)
    assert response.status_code == 400
    assert "is not UTF-8: encode names and keys as UTF-8" in response.json()["detail"]


async def test_head_is_a_get_without_a_body(client: httpx.AsyncClient) -> None:
    assert (await client.head("/v1/topics")).status_code == 200
    assert (await client.head(MESSAGE)).status_code == 404


@in_one(
    ("headers", "status"),
    [
        ({}, 201),
        ({"Content-Type": "application/json"}, 201),
        ({"Content-Type": "Application/JSON; charset=UTF-8"}, 201),
        ({"Content-Type": "application/merge-patch+json"}, 201),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/json; charset=latin-1"}, 415),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Encoding": "identity"}, 201),
        ({"Origin": "http://127.0.0.1:8277"}, 201),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://"}, 403),
    ],
)
async def test_what_the_headers_decide(client: httpx.AsyncClient, headers: dict[str, str], status: int) -> None:
    response = await client.post("/v1/topics/orders/messages", content=b'{"body": 1}', headers=headers)
    assert response.status_code == status
    if status != 201:
        problem(response)


async def test_other_sites_may_look(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/topics", headers={"Origin": "https://other.example"})).status_code == 200


async def test_every_kind_says_what_it_means(client: httpx.AsyncClient) -> None:
    for kind, (status, title) in KINDS.items():
        response = await client.get(f"/problems/{kind}")
        assert response.json() == {"type": f"/problems/{kind}", "title": title, "status": status}
    assert problem(await client.get("/problems/none"))["type"] == "/problems/not-found"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (store.ReadOnly(SECRET), "read-only"),
        (store.Full(SECRET), "more max_connections"),
        (store.Full(SECRET, quota="max_queries_per_hour"), "max_queries_per_hour of Tarry's user"),
        (store.Unavailable(SECRET), "is away"),
    ],
)
def test_why_the_store_cannot_be_had(error: store.StoreError, says: str) -> None:
    found = problem_of(error)
    assert found is not None
    assert says in found.body.detail
    assert SECRET not in found.body.detail
