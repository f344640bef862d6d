"""The alarm posts events, tries again, gives up, drops what is too much, and never tells its address."""

import json

import httpx
import pytest
import structlog
import trio
import trio.testing

from tarry.service.alarm import Alarm
from tarry.service.settings import SettingError, Settings

URL = "https://hooks.example/T0/secret?token=secret"


class Hook:
    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.got: list[dict[str, object]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.got.append(json.loads(request.content))
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 0:
            raise httpx.ConnectError(f"no way to {URL}")
        return httpx.Response(status)


async def no_rest(_seconds: float) -> None:
    await trio.lowlevel.checkpoint()


def alarm_to(hook: Hook) -> Alarm:
    return Alarm(URL, transport=httpx.MockTransport(hook), sleep=no_rest)


async def test_it_is_tried_again(nursery: trio.Nursery) -> None:
    hook = Hook(500, 0, 200)
    alarm = alarm_to(hook)
    nursery.start_soon(alarm.run)
    alarm.ring("consume_timeout", topic="orders")
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert hook.got == [{"event": "consume_timeout", "topic": "orders"}] * 3


async def test_it_gives_up_tells_no_secret_and_goes_on(nursery: trio.Nursery) -> None:
    hook = Hook(0, 500, 0, 500)
    alarm = alarm_to(hook)
    with structlog.testing.capture_logs() as logs:
        nursery.start_soon(alarm.run)
        alarm.ring("one")
        alarm.ring("two")
        await trio.testing.wait_all_tasks_blocked(0.05)
    assert [got["event"] for got in hook.got] == ["one"] * 4 + ["two"]
    assert [entry["event"] for entry in logs] == ["alarm_failed"]
    assert "secret" not in str(logs)


async def test_it_never_holds_anything_up() -> None:
    alarm = alarm_to(Hook())
    for _ in range(150):
        alarm.ring("consume_timeout")
    assert alarm.dropped == 50


async def test_without_an_address_nothing_happens() -> None:
    alarm = Alarm("")
    for _ in range(150):
        alarm.ring("consume_timeout")
    await alarm.run()
    assert alarm.dropped == 0


@pytest.mark.parametrize("url", ["ftp://x", "hooks.example", "https://", "http:// x", 5])
def test_what_is_no_address(url: object) -> None:
    with pytest.raises((SettingError, ValueError)):
        Settings(alarm_url=url)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", [URL, "https://me:secret@hooks.example/x", "https://hooks.example?secret"])
def test_the_address_is_shown_without_its_secret(url: str) -> None:
    shown = {name: value for name, value, _ in Settings(alarm_url=url).listed()}["alarm_url"]
    assert shown == "https://hooks.example/***"
    assert "secret" not in repr(Settings(alarm_url=url))
