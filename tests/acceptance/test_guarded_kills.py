"""kill -9 at named points of the promotion of messages with a guard: none is lost, doubled, or sent against its guard.

On each store by a program over it, which also is what a server does on SQLite were guards declared there; and through
HTTP by a server on MySQL.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.test_guards import House, declare, guarded, state

from support.in_turn import in_turn
from support.server import client_of, dying_server, start_server
from support.stores import Tables, open_tables
from support.waiting import paced, wait_until

ROOT = Path(__file__).parents[2]
POINTS = [
    "delay.lock_due:after",
    "delay.guards:after",
    "cancelled.add_suppressed:after",
    "cancelled.add_suppressed:commit",
    "cancelled.add_suppressed:committed",
    "message.promote:after",
    "message.promote:commit",
    "message.promote:committed",
    "delay.remove:after",
    "delay.remove:committed",
]
MANY = 6


@pytest.fixture
def house(mysql_dsn: str) -> Iterator[House]:
    house = House(mysql_dsn)
    yield house
    house.close()


def run(dsn: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / '.tree'}:{ROOT / 'tests'}"}
    command = [sys.executable, "-P", "-m", "support.guarded_program", dsn, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def ids(tables: Tables, sql: str) -> list[int]:
    return sorted(row[0] for row in tables.rows(sql))


@pytest.mark.parametrize(("dsn", "point"), in_turn(*((point,) for point in POINTS)), indirect=["dsn"])
@pytest.mark.cases(4)
def test_each_has_one_end(dsn: str, point: str) -> None:
    published = run(dsn, "publish", str(MANY))
    assert published.returncode == 0, published.stderr
    asked = published.stdout.split()
    killed = run(dsn, "promote", point, "1", *asked)
    assert killed.returncode == -9, f"{point} was never reached: {killed.stderr}"
    again = run(dsn, "promote", "none", "1", *asked)
    assert again.returncode == 0, again.stderr
    tables = open_tables(dsn)
    try:
        assert ids(tables, "SELECT id FROM message") == sorted(map(int, asked[::2])), "each yes is sent once"
        ended = ids(tables, "SELECT id FROM cancelled WHERE reason = 1 AND guard = X'756E70616964'")
        assert ended == sorted(map(int, asked[1::2])), "each no has ended once"
        assert tables.rows("SELECT COUNT(*) FROM delay") == [(0,)]
        ((suppressed,),) = tables.rows("SELECT SUM(suppressed) FROM tally")
        assert suppressed == MANY // 2, "and is counted once"
        assert tables.rows("SELECT next_offset FROM queue WHERE group_id = 0") == [(MANY // 2,)]
    finally:
        tables.close()


@pytest.mark.parametrize("point", ["cancelled.add_suppressed:commit", "message.promote:committed"])
@pytest.mark.cases(1)
def test_by_a_server(house: House, mysql_dsn: str, point: str, tmp_path: Path) -> None:
    keys = [f"order-{number}" for number in range(MANY)]
    house.put(*((key, "PAID" if number % 2 else "UNPAID") for number, key in enumerate(keys)))
    declare(tmp_path, house)
    with dying_server(tmp_path, mysql_dsn, point, 1) as server, client_of(server) as tarry:
        receipts = guarded(tarry, *keys, delay=f"{round(paced(1000))}ms")
    with start_server(tmp_path, mysql_dsn) as server, client_of(server) as tarry:
        ends = ["published", "suppressed"] * (MANY // 2)
        wait_until(lambda: [state(tarry, receipt) for receipt in receipts] == ends)
        topic = tarry.topic("orders")
        counts = [topic[name] for name in ("accepted", "streamed", "suppressed", "pending")]
        assert counts == [MANY, MANY // 2, MANY // 2, 0]
