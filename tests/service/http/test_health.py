"""/livez, /readyz, /metrics, / and /openapi.json."""

import re
from pathlib import Path

import httpx
import pytest
import trio
import trio.testing

from support.documented import documented
from support.failing import failing
from support.spied import NOW, SpiedServer, spied
from tarry import __version__
from tarry.service.engine.consume.sealer import Standstill
from tarry.service.http.app import App
from tarry.service.http.routes import OPERATIONS, Operation
from tarry.service.http.server.ports import App as ASGIApp
from tarry.store.errors import ReadOnly, Unavailable
from tarry.store.sqlite.backend import SQLiteBackend


@pytest.fixture
def undurable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store will find that it may lose what it was given."""

    async def durability(_: SQLiteBackend) -> list[str]:
        return ["sync_binlog is 0"]

    monkeypatch.setattr(SQLiteBackend, "durability", durability)


async def test_live_asks_nobody(client: httpx.AsyncClient, server: SpiedServer) -> None:
    server.errors["*"] = RuntimeError("away")
    assert (await client.get("/livez")).json() == {"alive": True}
    assert server.asked == []


async def test_ready(client: httpx.AsyncClient) -> None:
    assert (await client.get("/readyz")).json() == {"ready": True}
    assert (await client.get("/readyz?verbose")).json() == {
        "ready": True,
        "checks": [
            {"check": check, "ok": True, "detail": None}
            for check in ("store", "writes", "host", "clock", "host_clock", "writers", "hand", "rows", "stopping")
        ],
    }


@pytest.mark.usefixtures("undurable")
async def test_durability_is_flagged_and_stays_ready(client: httpx.AsyncClient, server: SpiedServer) -> None:
    server.node.sealer.standing[1] = Standstill("a", 0, (3, 9), NOW)
    assert (await client.get("/readyz")).status_code == 200
    checks = (await client.get("/readyz?verbose")).json()["checks"]
    sealing, durability = (check for check in checks if not check["ok"])
    assert durability == {"check": "durability", "ok": False, "detail": "sync_binlog is 0"}
    assert (sealing["check"], "queue 0 of a stands still" in sealing["detail"]) == ("sealing", True)


async def test_not_ready(client: httpx.AsyncClient, server: SpiedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.store.backend, "now", failing(Unavailable("it is away")))
    response = await client.get("/readyz")
    assert (response.status_code, "checks" in response.json()) == (503, False)
    assert response.headers["content-type"] == "application/problem+json"
    response = await client.get("/readyz?verbose")
    assert [check["ok"] for check in response.json()["checks"]] == [False, *[True] * 8]
    assert response.json()["detail"] == "store: it is away"


async def test_a_server_that_waits_tells_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And names nothing, for whoever asks: who may know stands in the store."""
    monkeypatch.setattr(SQLiteBackend, "migrate", failing(ReadOnly("mysql://secret@host: it is read-only")))
    async with spied(tmp_path / "tarry.db", ready=False) as server:
        transport = httpx.ASGITransport(app=server.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await trio.testing.wait_all_tasks_blocked()
            answer = await client.get("/readyz?verbose")
    assert answer.status_code == 503
    assert "has not answered yet: the store is read-only: another server" in answer.json()["detail"]
    assert "secret" not in answer.text


async def test_requests_are_counted_by_route_and_never_by_id(client: httpx.AsyncClient) -> None:
    await client.get("/v1/messages/7")
    await client.get("/v1/messages/8")
    await client.get("/secret-path")
    await client.request("BREW", "/v1/messages/8")
    text = (await client.get("/metrics")).text
    assert 'tarry_http_requests_total{method="GET",route="/v1/messages/{id}",status="404"} 2.0' in text
    assert 'tarry_http_requests_total{method="GET",route="(unmatched)",status="404"} 1.0' in text
    assert 'tarry_http_requests_total{method="(other)",route="(unmatched)",status="405"} 1.0' in text
    duration = 'tarry_http_request_duration_seconds_count{method="GET",route="/v1/messages/{id}",status="4xx"} 2.0'
    assert duration in text
    assert "secret-path" not in text
    assert "BREW" not in text


async def test_nothing_stays_in_flight(client: httpx.AsyncClient, app: ASGIApp) -> None:
    await client.get("/livez")
    assert isinstance(app, App)
    assert app.in_flight == 0


async def test_the_front_page_leads_on(client: httpx.AsyncClient) -> None:
    page = (await client.get("/")).json()
    assert page.pop("name") == "Tarry"
    assert page.pop("version") == __version__
    for path in page.values():
        assert (await client.get(path)).status_code == 200


async def test_the_document_names_every_route(client: httpx.AsyncClient, app: ASGIApp) -> None:
    document = (await client.get("/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    told = {(path, method.upper()) for path, operations in document["paths"].items() for method in operations}
    assert isinstance(app, App)
    assert told == {(operation.path, operation.method) for operation in app.router.operations()}


async def test_the_document_holds_together(client: httpx.AsyncClient) -> None:
    response = await client.get("/openapi.json")
    document = response.json()
    schemas = document["components"]["schemas"]
    assert set(re.findall(r'"#/components/schemas/(\w+)"', response.text)) <= set(schemas)
    operations = [(path, op) for path, ops in document["paths"].items() for op in ops.values()]
    names = [operation["operationId"] for _, operation in operations]
    assert len(names) == len(set(names))
    for path, operation in operations:
        in_path = [part["name"] for part in operation.get("parameters", []) if part["in"] == "path"]
        assert in_path == re.findall("{(.+?)}", path)
        for status, answer in operation["responses"].items():
            assert int(status) < 400 or list(answer["content"]) == ["application/problem+json"]
    assert schemas["Message"]["additionalProperties"] is False
    assert schemas["Message"]["properties"]["body"] == {}
    assert schemas["Batch"]["properties"]["messages"]["items"] == {"$ref": "#/components/schemas/Message"}
    assert schemas["Claim"]["properties"]["max"]["anyOf"][0]["maximum"] == 1000
    assert "client" in schemas["Claim"]["required"]
    assert "later" not in schemas["Claim"]["properties"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
async def test_until_the_store_has_answered_only_what_asks_nothing_of_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: Operation
) -> None:
    async def never(_: SQLiteBackend) -> list[str]:
        await trio.sleep_forever()

    monkeypatch.setattr(SQLiteBackend, "migrate", never)
    path = re.sub("{(.+?)}", "x", operation.path)
    async with spied(tmp_path / "tarry.db", ready=False) as server:
        transport, hooks = httpx.ASGITransport(app=server.app()), {"response": [documented]}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", event_hooks=hooks) as client:
            answer = await client.request(operation.method, path)
        assert server.asked == []
    signs_out = operation.method == "DELETE" and operation.path == "/v1/session"
    if signs_out or operation.path in ("/", "/livez", "/problems/{kind}"):  # who may see /metrics is in the store
        assert answer.status_code in (200, 404)
    elif operation.path == "/readyz":
        assert (answer.status_code, answer.json()["type"]) == (503, "/problems/not-ready")
    else:
        assert (answer.status_code, answer.json()["type"]) == (503, "/problems/stopping")
        assert answer.json()["executed"] is False
