"""Signing in and out, and what a page says to whom."""

from typing import Any

import httpx
import pytest

from support.spied import SpiedServer
from tarry.service.dashboard.dashboard import Dashboard
from tarry.service.dashboard.routes import ROUTES
from tarry.service.errors import Overloaded

ADDRESSES = [place.path.format(topic="orders", group="billing", id="7", name="daily") for place in ROUTES]


async def sign_in(browser: httpx.AsyncClient, token: str, back: str = "/ui") -> httpx.Response:
    return await browser.post("/ui/sign-in", data={"key": token, "next": back})


async def test_without_a_session_every_page_leads_there(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.make_key("me", "admin")
    server.asked.clear()
    for address in ADDRESSES:
        response = await browser.get(f"{address}?x=1")
        assert response.status_code == 303, address
        assert response.headers["location"].startswith("/ui/sign-in?next=%2Fui")
        assert server.asked == []
        shown = await browser.get(response.headers["location"])
        assert 'name="key"' in shown.text


async def test_there_and_back(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    token = await server.make_key("me", "admin")
    response = await sign_in(browser, token, "/ui/topics?sort=rate")
    assert (response.status_code, response.headers["location"]) == (303, "/ui/topics?sort=rate")
    assert token not in response.headers["set-cookie"]
    page = await browser.get("/ui/topics")
    assert page.status_code == 200
    assert ">me</span>" in page.text
    out = await browser.post("/ui/sign-out")
    assert (out.status_code, out.headers["location"]) == (303, "/ui/sign-in")
    assert (await browser.get("/ui/topics")).status_code == 303


@pytest.mark.parametrize(
    "back",
    ["https://elsewhere.invalid/", "//elsewhere.invalid", "/uix", "/v1/topics", "/ui\r\nSet-Cookie: a=b", "/ui/ü"],
)
async def test_it_leads_nowhere_else(browser: httpx.AsyncClient, server: SpiedServer, back: str) -> None:
    response = await sign_in(browser, await server.make_key("me", "admin"), back)
    assert response.headers["location"] == "/ui"


@pytest.mark.parametrize("token", ["", "not-a-key", "tarry_" + "A" * 43, "<script>", "x" * 300])
async def test_a_wrong_key(browser: httpx.AsyncClient, server: SpiedServer, token: str) -> None:
    await server.make_key("me", "admin")
    response = await sign_in(browser, token)
    assert response.status_code == 401
    assert 'role="alert"' in response.text
    assert "set-cookie" not in response.headers
    assert not token or token not in response.text


async def test_a_page_of_another_site_signs_nobody_in(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    token = await server.make_key("me", "admin")
    response = await browser.post("/ui/sign-in", data={"key": token}, headers={"Origin": "http://elsewhere.invalid"})
    assert response.status_code == 403
    assert "set-cookie" not in response.headers


async def test_a_revoked_key_is_the_end(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await sign_in(browser, await server.make_key("me", "admin"))
    assert (await browser.get("/ui")).status_code == 200
    await server.revoke_key("me")
    assert (await browser.get("/ui")).status_code == 303
    by_button = await browser.post("/ui/groups/orders/billing/pause", headers={"HX-Request": "true"})
    assert by_button.headers["hx-redirect"].startswith("/ui/sign-in")


async def test_a_write_wants_the_sessions_header(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.group(await server.topic())
    await sign_in(browser, await server.make_key("me", "admin"))
    page = await browser.get("/ui/groups/orders/billing")
    csrf = page.text.partition('"X-Tarry-CSRF": "')[2].partition('"')[0]
    path, sure = "/ui/groups/orders/billing/pause", {"sure": "yes"}
    refused = await browser.post(path, data=sure, headers={"HX-Request": "true"})
    assert refused.status_code == 403
    assert server.all("catalogue.pause_group") == []
    done = await browser.post(path, data=sure, headers={"HX-Request": "true", "X-Tarry-CSRF": csrf})
    assert "billing is paused" in done.text
    assert len(server.all("catalogue.pause_group")) == 1


async def test_buttons_are_for_those_who_may(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.group(await server.topic())
    await sign_in(browser, await server.make_key("me", "read:*"))
    assert "Pause" not in (await browser.get("/ui/groups/orders/billing")).text
    csrf = (await browser.get("/v1/session")).json()["csrf"]
    refused = await browser.post(
        "/ui/groups/orders/billing/pause", data={"sure": "yes"}, headers={"HX-Request": "true", "X-Tarry-CSRF": csrf}
    )
    assert refused.status_code == 403, "the button is not what holds it"
    assert "no scope operate:orders" in refused.text
    for page in ("/ui/topics", "/ui/topics/orders", "/ui/groups/orders/billing"):
        assert 'class="fields"' not in (await browser.get(page)).text, page
    refused = await browser.post(
        "/ui/topics/orders/put", data={"queues": "4"}, headers={"HX-Request": "true", "X-Tarry-CSRF": csrf}
    )
    assert "no scope operate:orders" in refused.text
    assert server.all("catalogue.put_topic") == []


async def test_a_key_of_one_topic_sees_that(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.group(await server.topic())
    await sign_in(browser, await server.make_key("me", "read:orders"))
    overview = await browser.get("/ui")
    assert overview.status_code == 200
    assert "The figures of all topics need a key" in overview.text
    asked = await browser.get("/ui/topics?topic=orders")
    assert (asked.status_code, asked.headers["location"]) == (303, "/ui/topics/orders")
    topics = await browser.get("/ui/topics")
    assert "The list of all topics needs a key" in topics.text
    assert "<table" not in topics.text
    assert (await browser.get("/ui/topics/orders")).status_code == 200
    assert (await browser.get("/ui/topics/parcels")).status_code == 403


async def test_by_a_wrong_name_there_is_nothing(browser: httpx.AsyncClient) -> None:
    for path in ("/ui", "/ui/static/dashboard.css", "/ui/sign-in"):
        assert (await browser.get(path, headers={"Host": "evil.invalid"})).status_code == 421


async def test_the_door(browser: httpx.AsyncClient, dashboard: Dashboard) -> None:
    to_people = await browser.get("/")
    assert (to_people.status_code, to_people.headers["location"]) == (303, "/ui")
    to_programs = await browser.get("/", headers={"Accept": "*/*"})
    assert to_programs.json()["name"] == "Tarry"
    assert (await browser.get("/v1/topics")).json()["topics"] == []
    assert (await browser.get("/ui/nowhere")).status_code == 404
    for bad in ("/ui/topics/%e9", "/ui/messages?topic=%e9"):
        told = await browser.get(bad)
        assert (told.status_code, "is not UTF-8" in told.text) == (400, True)
    assert (await browser.post("/ui/topics")).status_code == 405
    assert (await browser.get("/ui/static/../dashboard.py")).status_code == 404


async def test_when_there_is_no_room_it_is_said_and_not_logged(
    server: SpiedServer, dashboard: Dashboard, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who has no key shares little with others who have none."""
    sent: list[Any] = []

    async def receive() -> Any:
        raise Overloaded("too many bytes of requests are on their way at once; try again in a moment")

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-length", b"60"), (b"accept", b"text/html")]
    named = {"path": "/ui/sign-in", "raw_path": b"/ui/sign-in", "query_string": b"", "headers": headers}
    await dashboard({"type": "http", "method": "POST", **named}, receive, send)
    assert sent[0]["status"] == 503
    assert "page_failed" not in caplog.text + "".join(capsys.readouterr())


async def test_a_sign_in_is_short(browser: httpx.AsyncClient) -> None:
    assert (await browser.post("/ui/sign-in", data={"key": "a" * 1100})).status_code == 413
    shown = await browser.get("/ui/sign-in", params={"next": "/ui/topics?cursor=" + "é" * 300})
    assert "%C3%A9" not in shown.text, "what a form carries along has room in it"
