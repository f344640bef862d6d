"""Schedules through real servers: each fire time has its message, and one, whatever servers do and however they die."""

import time
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from support.in_turn import KINDS, in_turn
from support.server import client_of, dying_server, start_server, start_servers
from support.waiting import wait_until
from tarry.client import LeaseLost, NotFound, Tarry, TarryError

POINTS = [
    "delay.lock_due:after",
    "schedule.lock_next:after",
    "fire.add:after",
    "schedule.advance:after",
    "delay.add_special:after",
    "delay.add_special:commit",
    "delay.add_special:committed",
    "message.promote:after",
    "delay.remove:commit",
    "delay.remove:committed",
]
KEPT = ["moved.add:after", "delay.move:commit", "delay.move:committed", "fire.end:after", "fire.end:committed"]
"""Points of a message that is kept back, and of one that goes at last."""
SECOND = timedelta(seconds=1)


def every_second(tarry: Tarry) -> None:
    tarry.put_schedule("often", topic="ticks", body=1, every="1s", misfire={"catch_up": "1h"})


def fired(tarry: Tarry) -> list[datetime]:
    try:
        return sorted(one.fire_at for one in tarry.fires("often") if one.what == "fired")
    except NotFound:
        return []


def sent(tarry: Tarry) -> Counter[str]:
    """How many messages there are of each fire time."""
    found: list[Any] = []
    place = 0
    while page := tarry.pull("ticks", 0, place, max=1000).messages:
        found += page
        place = page[-1].offset + 1
    return Counter(message.headers["tarry-fire-at"] for message in found)


def each_has_one(tarry: Tarry) -> None:
    tarry.pause_schedule("often")
    times = fired(tarry)
    assert times == [times[0] + nth * SECOND for nth in range(len(times))], "none is left out"
    # What is told as fired may wait for its jitter. And promotion may have had the next one in its hands when the pause
    # came: then another look drops it.
    wait_until(lambda: tarry.topic("ticks")["pending"] == 0)
    messages = sent(tarry)
    assert set(messages.values()) == {1}, "none comes twice"
    assert {datetime.fromisoformat(at) for at in messages} == set(times), "each has its message, and none came later"
    topic = tarry.topic("ticks")
    assert topic["accepted"] - topic["replaced"] - topic["cancelled"] == topic["streamed"]


@pytest.mark.parametrize(("dsn", "point"), in_turn(*((point,) for point in POINTS)), indirect=["dsn"])
@pytest.mark.cases(2)
def test_a_server_that_is_killed_loses_and_doubles_none(dsn: str, point: str, tmp_path: Path) -> None:
    with dying_server(tmp_path, dsn, point, 3) as server, client_of(server) as tarry:
        every_second(tarry)
    with start_server(tmp_path, dsn) as server, client_of(server) as tarry:
        before = len(fired(tarry))
        wait_until(lambda: len(fired(tarry)) >= before + 3)
        each_has_one(tarry)


def test_two_servers_and_one_that_is_killed(mysql_dsn: str, tmp_path: Path) -> None:
    with (
        start_servers(tmp_path, mysql_dsn, "first", "second") as (first, second),
        client_of(first) as here,
        client_of(second) as there,
    ):
        every_second(here)
        wait_until(lambda: len(fired(there)) >= 4)
        second.kill()
        before = len(fired(here))
        wait_until(lambda: len(fired(here)) >= before + 3, seconds=60)
        second.start()
        each_has_one(here)


def settle(tarry: Tarry, settled: dict[str, int], hold: float) -> None:
    """Claims what there is of the schedule, holds it so long, settles it, and remembers how often each came."""
    claim = tarry.claim("ticks", "slow", wait="1s", lease="2s")
    if claim is None:
        return
    time.sleep(hold)
    assert len(claim.messages) == 1, "of two that are unsettled one is kept back"
    (message,) = claim.messages
    try:
        tarry.ack(claim)
    except LeaseLost:
        return  # the server was away for longer than the lease: it comes once more
    settled[message.headers["tarry-fire-at"]] = settled.get(message.headers["tarry-fire-at"], 0) + 1


@pytest.mark.parametrize(
    ("dsn", "point"),
    [
        *in_turn((KEPT[0],), (KEPT[-1],), ("none",)),
        *(pytest.param(kind, one, marks=pytest.mark.long) for kind, one in product(KINDS, KEPT[1:-1])),
    ],
    indirect=["dsn"],
)
@pytest.mark.cases(1)
def test_one_is_kept_back_until_the_one_before_is_settled(dsn: str, point: str, tmp_path: Path) -> None:
    """Whenever the server dies: what is kept back goes, once, those that come meanwhile are left out, and none else."""
    settled: dict[str, int] = {}
    begun = start_server(tmp_path, dsn) if point == "none" else dying_server(tmp_path, dsn, point, 2)
    with begun as server, client_of(server) as tarry:
        tarry.put_group("ticks", "slow", ladder=["1s"] * 16)
        late: Any = {"catch_up": "1h"}
        tarry.put_schedule("often", topic="ticks", body=1, every="1s", overlap="queue_one", group="slow", misfire=late)
        if point == "none":
            wait_until(lambda: "overlapped" in {one.what for one in tarry.fires("often")})
            server.kill()
        else:
            with suppress(TarryError), Tarry(server.url, deadline=1.0) as brief:
                while not server.ended:
                    settle(brief, settled, 1.5)
    with start_server(tmp_path, dsn) as server, client_of(server) as tarry:
        goal = len(settled) + 2
        while len(settled) < goal:
            settle(tarry, settled, 1.5)
        tarry.pause_schedule("often")
        what = {one.fire_at: one.what for one in tarry.fires("often")}
        times = sorted(what)
        assert times == [times[0] + nth * SECOND for nth in range(len(times))], "each has its end"
        assert set(what.values()) == {"fired", "overlapped"}, what
        messages = sent(tarry)
        assert set(messages.values()) == {1}, "none comes twice"
        assert {datetime.fromisoformat(at) for at in messages} == {at for at in times if what[at] == "fired"}
        topic = tarry.topic("ticks")
        assert (topic["accepted"] - topic["replaced"], topic["pending"]) == (topic["streamed"], 0)
