"""By which names the server may be called."""

from typing import Any

import httpx
import pytest

from support.in_one import in_one
from support.spied import SpiedServer
from tarry.service.http.server.ports import App as ASGIApp
from tarry.service.http.server.ports import Message
from tarry.service.settings import SettingError, Settings

ORDERS = "/v1/topics/orders/messages"


@pytest.fixture
def settings() -> Settings:
    return Settings(listen="127.0.0.1:8277", hosts=("tarry.internal", "Broker"))


@in_one(
    ("host", "status"),
    [
        *((host, 201) for host in ("localhost", "LocalHost:1", "localhost.", "127.0.0.1", "127.0.0.1:8277")),
        *((host, 201) for host in ("10.9.8.7", "[::1]", "[::1]:8277", "[fe80::1]", "localhost:")),
        *((host, 201) for host in ("tarry.internal", "TARRY.internal:99", "broker", "broker.")),
        *((host, 421) for host in ("evil.example", "evil.example:8277", "localhost.evil.example", "xlocalhost")),
        *((host, 421) for host in ("127.0.0.1.evil.example", "a.tarry.internal", "127.1", "2130706433", "0x7f.1")),
        *((host, 421) for host in ("", ":8277", "localhost:80@evil.example", "[::1", "::1", "[evil]", "[127.0.0.1")),
        *((host, 421) for host in ("localhost evil", "localhost,evil", "localhost/", "127.0.0.1:x", "localhost..")),
    ],
)
async def test_who_may_be_asked_for(client: httpx.AsyncClient, server: SpiedServer, host: str, status: int) -> None:
    response = await client.post(ORDERS, json={"body": 1}, headers={"Host": host})
    assert response.status_code == status
    if status == 421:
        assert response.json()["type"] == "/problems/wrong-host"
        assert response.json()["executed"] is False
        assert "hosts" in response.json()["detail"]
        assert server.asked == []


async def test_a_bound_name_neither_reads_nor_writes(client: httpx.AsyncClient) -> None:
    """The page of evil.example, whose name leads to this machine: to the browser it is all one site."""
    evil = {"Host": "evil.example:8277", "Origin": "http://evil.example:8277"}
    for path in ("/v1/topics", "/v1/messages/7", "/metrics", "/", "/openapi.json", "/nowhere"):
        assert (await client.get(path, headers=evil)).status_code == 421
    assert (await client.post(ORDERS, json={"body": 1}, headers=evil)).status_code == 421


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_probes_may_use_any_name(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path, headers={"Host": "pod-7.anything"})).status_code == 200


@in_one(
    ("version", "hosts", "status"),
    [
        ("1.0", [], 200),
        ("1.1", [], 421),
        ("2", [], 421),
        ("1.0", [b"evil.example"], 421),
        ("1.0", [b"localhost"], 200),
        ("1.1", [b"localhost", b"evil.example"], 421),
        ("1.1", [b"localhost", b"localhost"], 421),
        ("1.1", [b"\xff"], 421),
    ],
)
async def test_none_or_several(app: ASGIApp, version: str, hosts: list[bytes], status: int) -> None:
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": version,
        "method": "GET",
        "path": "/v1/topics",
        "query_string": b"",
        "headers": [(b"host", host) for host in hosts],
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == status


def test_the_setting() -> None:
    assert Settings.load(environment={"TARRY_HOSTS": "a.example, b"}).hosts == ("a.example", "b")
    assert Settings.load(environment={"TARRY_HOSTS": "none"}, flags={"hosts": None}).hosts == ()
    shown = {name: value for name, value, _ in Settings(hosts=("a", "b")).listed()}
    assert shown["hosts"] == "a,b"
    for wrong in ("http://a", "a:8277", "a b", "*", "a,,b"):
        with pytest.raises(SettingError, match=r"hosts \(TARRY_HOSTS\): .* is not a host's name"):
            Settings.load(environment={"TARRY_HOSTS": wrong})
