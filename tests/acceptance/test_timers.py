"""Timers by key through real servers: one waits, whoever sets it where, and each verdict is true."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.drivers import DRIVERS, close
from support.server import client_of, start_server, start_servers
from support.waiting import wait_until
from tarry.client import Tarry, TooLate, Unavailable, outbox


def delivered(tarry: Tarry, want: int) -> list[Any]:
    """What comes, until so many have, or nothing for a while."""
    found: list[Any] = []
    for message in tarry.consume("orders", group="all", idle_timeout=3.0, start="earliest"):
        with message:
            found.append(message.body)
        if len(found) == want:
            break
    return found


def test_set_here_and_there(mysql_dsn: str, tmp_path: Path) -> None:
    with (
        start_servers(tmp_path, mysql_dsn, "first", "second") as (first, second),
        client_of(first) as here,
        client_of(second) as there,
    ):
        here.put_topic("orders")
        one = here.set_timer("orders", "order-7", "here", delay="1h")
        two = there.set_timer("orders", "order-7", "there", delay="300ms", match=one.revision)
        assert two.replaced == one.id
        assert here.timer("orders", "order-7").id == two.id
        assert delivered(here, 1) == ["there"], "and not the one that was replaced"
        with pytest.raises(TooLate):
            here.cancel_timer("orders", "order-7")
        topic = here.topic("orders")
        assert (topic["accepted"], topic["replaced"], topic["streamed"]) == (2, 1, 1)


def test_a_transaction_that_holds_one_holds_up_no_other(mysql_dsn: str, tmp_path: Path) -> None:
    """Of a timer that is there, and of one that its transaction has just made."""
    with (
        start_server(tmp_path, mysql_dsn) as server,
        client_of(server) as tarry,
        Tarry(server.url, deadline=0) as impatient,
    ):
        tarry.put_topic("orders")
        tarry.set_timer("orders", "there", 1, delay="1h")
        user = DRIVERS["pymysql"](mysql_dsn)
        for key in ("there", "new"):
            outbox.set_timer(user.cursor(), "orders", key, 2, delay="1h")
            with pytest.raises(Unavailable) as held:
                impatient.set_timer("orders", key, 3, delay="1h")
            assert (held.value.status, held.value.problem["executed"]) == (503, False)
            tarry.set_timer("orders", f"beside {key}", 3, delay="1h")
        user.commit()
        assert tarry.set_timer("orders", "new", 4, delay="1h").replaced is not None
        close(user)


def test_a_server_that_is_killed_loses_and_doubles_none(mysql_dsn: str, tmp_path: Path) -> None:
    """Timers are set over and over by their last revision; whatever was answered last is what comes."""
    keys = [f"order-{number}" for number in range(8)]
    with start_server(tmp_path, mysql_dsn) as server, Tarry(server.url, deadline=30) as tarry:
        tarry.put_topic("orders")
        done = threading.Event()
        sets: dict[str, list[int]] = {key: [] for key in keys}

        def set_again(key: str) -> None:
            while not done.is_set():
                number = len(sets[key]) + 1
                tarry.set_timer("orders", key, [key, number], delay="1h")
                sets[key].append(number)

        def all_set(times: int) -> bool:
            return min(map(len, sets.values())) >= times

        with ThreadPoolExecutor(len(keys)) as pool:
            setting = [pool.submit(set_again, key) for key in keys]
            for kill in range(3):
                wait_until(partial(all_set, 3 * kill + 3), seconds=30)
                server.kill()
                server.start()
            done.set()
            for one in setting:
                one.result()
        for key in keys:
            timer = tarry.timer("orders", key)
            assert tarry.message(timer.id)["body"] == [key, len(sets[key])]
            tarry.reschedule(timer.id, delay="0s")
        assert sorted(delivered(tarry, len(keys))) == sorted([key, len(sets[key])] for key in keys)
        topic = tarry.topic("orders")
        assert topic["streamed"] == len(keys)
        assert topic["accepted"] == topic["streamed"] + topic["replaced"]
