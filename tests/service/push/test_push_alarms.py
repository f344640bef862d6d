"""Who is called when a push does not work: about what, when, and how often."""

import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from support.office import Office, open_office
from support.receiver import OK, Receiver, head, receiver
from tarry.service.push import pusher as pusher_file


@pytest.fixture
def pager() -> Iterator[Receiver]:
    with receiver() as pager:
        yield pager


async def calls(pager: Receiver, many: int) -> list[dict[str, Any]]:
    """All there are, once there are so many; each has its time."""
    came = await trio.to_thread.run_sync(partial(pager.wait_for, many))
    told = [json.loads(one.body) for one in came]
    assert all(one.pop("at").endswith("Z") for one in told)
    return told


@pytest.fixture
async def office(tmp_path: Path, there: Receiver, pager: Receiver) -> AsyncIterator[Office]:
    async with open_office(tmp_path / "tarry.db", there, alarm_url=f"{pager.url}/alarm") as office:
        yield office


NAMES = {"topic": "orders", "group": "billing"}
OFF = {"event": "push_switched_off", "because": "the endpoint answered 410", **NAMES}


async def test_switched_off_is_told_once(office: Office, pager: Receiver) -> None:
    """However many posts are told so."""
    office.there.answer = lambda _: head(410)
    await office.push(most=10)
    await office.publish(*[b"1"] * 10)
    await office.until_row(lambda row: row.off_at is not None)
    assert await calls(pager, 1) == [OFF]
    office.there.answer = lambda _: OK
    await office.push()
    await office.until(lambda state: state.acked == 10)
    office.there.answer = lambda _: head(410)
    await office.publish(b"1")
    assert await calls(pager, 2) == [OFF, OFF], "set anew it is told anew, and nothing else was"


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
async def test_an_endpoint_that_is_away_for_long(
    office: Office, pager: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody is called once, hears when it is over, and is called again the next time."""
    monkeypatch.setattr(pusher_file, "_LONG", 0.3)
    broken = {"event": "push_broken", "because": "the endpoint answered 500", **NAMES}
    mended = {"event": "push_mended", **NAMES}
    for time in range(2):
        office.there.answer = lambda _: head(500)
        await office.push() if not time else None
        await office.publish(*[b"1"] * 8)
        assert (await calls(pager, 2 * time + 1))[2 * time :] == [broken]
        await office.came(len(office.there.received) + 3)  # probes that fail ring no more
        office.there.answer = lambda _: OK
        await office.until(lambda state, many=8 * (time + 1): state.acked == many)  # type: ignore[misc]
        assert (await calls(pager, 2 * time + 2))[2 * time :] == [broken, mended]


@pytest.mark.usefixtures("quick")
async def test_a_short_one_calls_nobody(office: Office, pager: Receiver) -> None:
    """Under five minutes."""
    office.there.answer = lambda _: head(500)
    await office.push()
    await office.publish(*[b"1"] * 8)
    await office.until_row(lambda row: row.broken_at is not None)
    await office.came(len(office.there.received) + 3)
    office.there.answer = lambda _: OK
    await office.until(lambda state: state.acked == 8)
    await office.until_row(lambda row: row.broken_at is None)
    office.there.answer = lambda _: head(410)
    await office.publish(b"1")
    assert await calls(pager, 1) == [OFF], "and this is the first"
