"""A browser's session: a cookie in place of the key, and a header with each write."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest
import structlog

from support.spied import SpiedServer
from support.wrong_input import faults
from tarry.service.access.sessions import LASTS
from tarry.service.access.tokens import make_token

PATH = "/v1/session"


@pytest.fixture
async def token(server: SpiedServer) -> str:
    return await server.make_key("me", "read:*", "operate:orders")


async def signed_in(client: httpx.AsyncClient, token: str) -> dict[str, str]:
    """What a browser brings, and what a page adds to a write."""
    response = await client.post(PATH, json={"key": token})
    assert response.status_code == 201
    return {"X-Tarry-CSRF": response.json()["csrf"]}


async def test_a_key_for_a_cookie(client: httpx.AsyncClient, token: str) -> None:
    response = await client.post(PATH, json={"key": token})
    cookie = response.headers["set-cookie"]
    assert re.fullmatch(
        rf"tarry_session=[A-Za-z0-9_-]+; Path=/; Max-Age={LASTS // 1000}; HttpOnly; SameSite=Strict", cookie
    )
    assert token not in response.text + cookie
    told = response.json()
    assert (told["key"], told["scopes"], told["expires_at"]) == (
        "me",
        ["read:*", "operate:orders"],
        "2026-11-21T22:00:00.000Z",
    )
    assert (await client.get(PATH)).json() == told
    assert (await client.get("/v1/topics")).status_code == 200


async def test_of_tls_the_cookie_is_for_tls(client: httpx.AsyncClient, token: str) -> None:
    response = await client.post("https://127.0.0.1:8277/v1/session", json={"key": token})
    assert response.headers["set-cookie"].endswith("; Secure")


async def test_a_write_wants_the_header(client: httpx.AsyncClient, server: SpiedServer, token: str) -> None:
    await server.group(await server.topic())
    proof = await signed_in(client, token)
    path = "/v1/topics/orders/groups/billing/pause"
    for headers in ({}, {"X-Tarry-CSRF": ""}, {"X-Tarry-CSRF": "x"}, {"X-Tarry-CSRF": proof["X-Tarry-CSRF"] + "x"}):
        refused = await client.post(path, headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems/cross-origin")
    assert server.all("catalogue.pause_group") == []
    assert (await client.post(path, headers=proof)).json()["paused"] is True
    other = await client.post(path, headers=proof | {"Origin": "http://elsewhere.invalid"})
    assert other.status_code == 403


async def test_its_scopes_are_those_of_the_key(client: httpx.AsyncClient, server: SpiedServer, token: str) -> None:
    proof = await signed_in(client, token)
    refused = await client.put("/v1/topics/parcels", json={}, headers=proof)
    assert (refused.status_code, refused.json()["type"]) == (403, "/problems/forbidden")


async def test_a_key_in_the_header_goes_before_it(client: httpx.AsyncClient, token: str) -> None:
    await signed_in(client, token)
    wrong = await client.get("/v1/topics", headers={"Authorization": f"Bearer {make_token()}"})
    assert wrong.status_code == 401
    assert (await client.get(PATH, headers={"Authorization": f"Bearer {token}"})).json()["csrf"] is None


async def test_it_ends_with_its_key_and_by_signing_out(
    client: httpx.AsyncClient, server: SpiedServer, token: str
) -> None:
    await signed_in(client, token)
    await server.revoke_key("me")
    assert (await client.get(PATH)).status_code == 401
    assert (await client.get("/v1/topics")).status_code == 401
    out = await client.delete(PATH)
    assert out.json() == {"result": "signed out"}
    assert "Max-Age=0" in out.headers["set-cookie"]
    assert not client.cookies


async def test_signing_out_ends_it_and_not_the_cookie_alone(client: httpx.AsyncClient, token: str) -> None:
    proof = await signed_in(client, token)
    kept = {"Cookie": f"tarry_session={client.cookies['tarry_session']}"}
    assert (await client.delete(PATH)).json() == {"result": "signed out"}
    for response in (
        await client.get(PATH, headers=kept),
        await client.get("/v1/topics", headers=kept),
        await client.put("/v1/topics/orders", json={}, headers=kept | proof),
        await client.get("/ui/topics", headers=kept),
    ):
        assert response.status_code in (401, 404), response.text
    for cookies in ({}, kept, {"Cookie": "tarry_session=x"}, {"Cookie": "tarry_session="}):
        again = await client.delete(PATH, headers=cookies)
        assert (again.status_code, again.json()) == (200, {"result": "signed out"})
    await signed_in(client, token)
    assert (await client.get("/v1/topics")).status_code == 200


@pytest.mark.parametrize("key", ["", "x" * 256, 7, None])
async def test_what_is_no_key(client: httpx.AsyncClient, token: str, key: object) -> None:
    response = await client.post(PATH, json={"key": key})
    assert faults(response) == ["/key"]


async def test_an_unknown_key(client: httpx.AsyncClient, token: str) -> None:
    response = await client.post(PATH, json={"key": make_token()})
    assert (response.status_code, response.headers.get("set-cookie")) == (401, None)


async def test_a_page_of_another_site_signs_nobody_in(client: httpx.AsyncClient, token: str) -> None:
    response = await client.post(PATH, json={"key": token}, headers={"Origin": "http://elsewhere.invalid"})
    assert (response.status_code, response.headers.get("set-cookie")) == (403, None)


async def test_where_no_key_is_asked_for(client: httpx.AsyncClient) -> None:
    everybody = {"key": None, "scopes": ["admin"], "expires_at": None, "csrf": None}
    assert (await client.get(PATH)).json() == everybody
    response = await client.post(PATH, json={"key": "x"})
    assert (response.json(), response.headers.get("set-cookie")) == (everybody, None)


def told(logs: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Of the log what an auditor reads."""
    lines = [one for one in logs if one["event"] == "operated"]
    return [(one["operation"], one["key"], one["target"], one.get("message"), one["outcome"]) for one in lines]


async def test_what_a_session_writes_is_in_the_log(client: httpx.AsyncClient, server: SpiedServer) -> None:
    """Whoever sits at a page is an operator, also where a key of producers would do."""
    await server.topic()
    token = await server.make_key("anna", "read:*", "publish:orders")
    bearer = {"Authorization": f"Bearer {token}"}
    messages, later = "/v1/topics/orders/messages", {"body": 1, "delay": "1h"}
    with structlog.testing.capture_logs() as logs:
        first = (await client.post(messages, json=later, headers=bearer)).json()["id"]
        second = (await client.post(messages, json=later, headers=bearer)).json()["id"]
        assert (await client.delete(f"/v1/messages/{second}", headers=bearer)).status_code == 200
    assert told(logs) == [], "of programs there may be thousands a second"
    proof = await signed_in(client, token)
    with structlog.testing.capture_logs() as logs:
        await client.get(f"/v1/messages/{first}")
        await client.patch(f"/v1/messages/{first}", json={"delay": "2h"}, headers=proof)
        made = (await client.post(messages, json=later, headers=proof)).json()["id"]
        await client.put("/v1/topics/orders/timers/cart-7", json=later, headers=proof)
        await client.delete(f"/v1/messages/{first}", headers=proof)
        await client.delete(f"/v1/messages/{first}")
        await client.delete("/v1/messages/99", headers=proof)
    (timer,) = [one["message"] for one in logs if one.get("operation") == "put_timer"]
    assert told(logs) == [
        ("reschedule", "anna", {"id": first}, None, "done"),
        ("publish", "anna", {"topic": "orders"}, made, "done"),
        ("put_timer", "anna", {"topic": "orders"}, timer, "done"),
        ("cancel", "anna", {"id": first}, None, "done"),
        ("cancel", None, {"id": first}, None, "cross-origin"),
        ("cancel", "anna", {"id": "99"}, None, "unknown-message"),
    ]
    assert token not in str(logs)


async def test_where_no_key_is_asked_for_a_page_is_known_by_its_origin(
    client: httpx.AsyncClient, server: SpiedServer
) -> None:
    await server.topic()
    sent = (await client.post("/v1/topics/orders/messages", json={"body": 1, "delay": "1h"})).json()["id"]
    with structlog.testing.capture_logs() as logs:
        await client.patch(f"/v1/messages/{sent}", json={"delay": "2h"})
        await client.delete(f"/v1/messages/{sent}", headers={"Origin": "http://127.0.0.1:8277"})
    assert told(logs) == [("cancel", None, {"id": sent}, None, "done")]
