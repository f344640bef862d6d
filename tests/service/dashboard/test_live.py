"""What changes by itself: sent when it is another, and ended when it has to."""

from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import trio

from support.in_one import in_one
from support.spied import NOW, SpiedServer
from support.waiting import until
from tarry.service.dashboard import live
from tarry.service.dashboard.dashboard import Dashboard
from tarry.service.http.server.ports import CREDIT, PRESENCE, Presence, Unlimited
from tarry.service.http.server.terms import Untaken


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY", 0.01)


class Little(Unlimited):
    """Room for a few answers that nobody takes."""

    def __init__(self) -> None:
        self._untaken = Untaken(100_000)
        self.answers = 0

    def hold(self, size: int) -> None:
        self._untaken.check("", size)
        self._untaken.hold("", size)
        self.answers += 1

    def free(self, size: int) -> None:
        self._untaken.free("", size)


class Listener:
    """A browser that has a page open."""

    def __init__(self, page: str, headers: dict[str, str]) -> None:
        self.presence = Presence()
        self.credit = Little()
        self.status = 0
        self.text = ""
        self.ended = trio.Event()
        sent = {"host": "127.0.0.1", **headers}
        self._scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/ui/live",
            "raw_path": b"/ui/live",
            "query_string": f"page={quote(page, safe='')}".encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            PRESENCE: self.presence,
            CREDIT: self.credit,
        }

    async def run(self, dashboard: Dashboard) -> None:
        await dashboard(self._scope, self._receive, self._send)
        self.ended.set()

    async def _receive(self) -> MutableMapping[str, Any]:
        await trio.sleep_forever()
        raise AssertionError

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.text += message.get("body", b"").decode()

    def events(self, name: str) -> list[str]:
        """The data of each."""
        found = [one for one in self.text.split("\n\n") if one.startswith(f"event: {name}\n")]
        return ["\n".join(line.removeprefix("data: ") for line in one.split("\n")[1:]) for one in found]

    async def until(self, name: str, count: int) -> str:
        await until(lambda: len(self.events(name)) >= count)
        return self.events(name)[count - 1]

    async def end(self) -> int:
        """With which status."""
        with trio.fail_after(2):
            await self.ended.wait()
        return self.status


@asynccontextmanager
async def listening(dashboard: Dashboard, page: str, headers: dict[str, str] | None = None) -> AsyncIterator[Listener]:
    listener = Listener(page, headers or {})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.run, dashboard)
        yield listener
        nursery.cancel_scope.cancel()


async def test_it_is_sent_when_it_is_another(dashboard: Dashboard, server: SpiedServer) -> None:
    async with listening(dashboard, "/ui/topics?sort=name") as listener:
        first = await listener.until("live", 1)
        assert "There is no topic yet" in first
        await server.topic("orders")
        second = await listener.until("live", 2)
        assert "/ui/topics/orders" in second
        assert "<html" not in second
        await trio.sleep(0.1)
        assert len(listener.events("live")) == 2, "nothing has changed since"
        assert dashboard.live.streams == 1
    assert dashboard.live.streams == 0


async def test_what_a_window_was_told_is_not_held_while_it_is_open(dashboard: Dashboard, server: SpiedServer) -> None:
    """Of each look an answer of 20 kB: the third would be one too many."""
    topic = await server.topic()
    (sent,) = await server.publish(topic, b'"' + b"x" * 20_000 + b'"', deliver_at=NOW + 60_000)
    async with listening(dashboard, f"/ui/messages/{sent.id}") as listener:
        await until(lambda: listener.credit.answers >= 10 or listener.events("trouble"))
        assert listener.events("trouble") == []


async def test_a_line_end_in_a_body_ends_no_event(dashboard: Dashboard, server: SpiedServer) -> None:
    topic = await server.topic()
    (sent,) = await server.publish(topic, b'"a\\nevent: over\\n\\ndata: b"', deliver_at=NOW + 60_000)
    async with listening(dashboard, f"/ui/messages/{sent.id}") as listener:
        told = await listener.until("live", 1)
        assert "event: over" in told
        assert listener.events("over") == []


@pytest.mark.parametrize("why", ["the server stops", "the visitor leaves"])
async def test_it_ends_though_it_would_look_much_later(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(live, "EVERY", 60.0)
    async with listening(dashboard, "/ui") as listener:
        await listener.until("live", 1)
        await trio.sleep(0.05)
        if why == "the server stops":
            dashboard._stopped.set()
        else:
            listener.presence.leave()
        await listener.end()


async def test_it_ends_with_the_session(dashboard: Dashboard, server: SpiedServer, browser: httpx.AsyncClient) -> None:
    signed = await browser.post("/ui/sign-in", data={"key": await server.make_key("me", "read:*")})
    cookie = signed.headers["set-cookie"].partition(";")[0]
    async with listening(dashboard, "/ui/topics", {"cookie": cookie}) as listener:
        await listener.until("live", 1)
        await server.revoke_key("me")
        await listener.until("over", 1)
        await listener.end()


async def test_without_a_session_there_is_none(dashboard: Dashboard, server: SpiedServer) -> None:
    await server.make_key("me", "admin")
    async with listening(dashboard, "/ui/topics") as listener:
        assert await listener.end() == 401


@in_one("page", ["/v1/topics", "/ui/live?page=/ui", "/ui/sign-in", "", "/ui/groups/a/b/pause", "x"])
async def test_of_what_is_no_page_there_is_none(dashboard: Dashboard, page: str) -> None:
    async with listening(dashboard, page) as listener:
        assert await listener.end() == 404


async def test_there_are_no_more_than_so_many(dashboard: Dashboard) -> None:
    dashboard.live.most = 1
    async with listening(dashboard, "/ui") as first:
        await first.until("live", 1)
        async with listening(dashboard, "/ui") as second:
            assert await second.end() == 503


async def test_trouble_of_the_store_is_told_and_passes(dashboard: Dashboard, server: SpiedServer) -> None:
    await server.topic()
    async with listening(dashboard, "/ui/topics/orders") as listener:
        await listener.until("live", 1)
        await server.node.remover.remove_topic(await server.node.directory.topic("orders", create=False), force=True)
        assert "no topic" in await listener.until("trouble", 1)
        await server.topic()
        await server.publish(await server.topic(), b"1")
        await listener.until("live", 2)
