"""Guards through real servers and real tables: what is true is sent, what is not ends, and what nobody knows waits."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pymysql
import pytest

from support.commands import command
from support.server import client_of, start_server
from support.stores import connect_raw
from support.waiting import wait_until
from tarry.client import BadRequest, Receipt, Suppressed, Tarry
from tarry.service.demo.server_process import ServerProcess

SOON = "200ms"


class House:
    """A user's own table in a database of its own, and the user who may read it."""

    def __init__(self, dsn: str) -> None:
        self.connection = connect_raw(dsn)
        self.connection.autocommit(True)
        parts = urlsplit(dsn)
        self.database, self.user = f"{parts.path[1:]}_shop", f"g_{parts.path[1:][-20:]}"
        self.run(f"CREATE DATABASE `{self.database}`")
        self.run(
            f"CREATE TABLE `{self.database}`.orders (number VARCHAR(64) NOT NULL, status VARCHAR(20), KEY (number))"
        )
        self.run(f"CREATE USER '{self.user}' IDENTIFIED BY 'pw'")
        self.run(f"GRANT SELECT ON `{self.database}`.* TO '{self.user}'")
        self.dsn = f"mysql://{self.user}:pw@{parts.hostname}:{parts.port}/{self.database}"

    def run(self, sql: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)

    def put(self, *rows: tuple[str, str]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO `{self.database}`.orders VALUES (%s, %s)", rows)

    def close(self) -> None:
        self.run(f"DROP DATABASE `{self.database}`")
        self.run(f"DROP USER '{self.user}'")
        self.connection.close()


@pytest.fixture
def house(mysql_dsn: str) -> Iterator[House]:
    house = House(mysql_dsn)
    yield house
    house.close()


def declare(folder: Path, house: House, condition: str = "status = 'UNPAID'", **more: dict[str, str]) -> None:
    guards = {"unpaid": {"condition": condition}} | more
    text = ""
    for name, fields in guards.items():
        of = {
            "table": f"{house.database}.orders",
            "key_column": "number",
            "dsn": house.dsn,
            "timeout": "300ms",
        } | fields
        text += f"[guards.{name}]\n" + "".join(f'{field} = "{value}"\n' for field, value in of.items())
    (folder / "tarry.toml").write_text(text, "utf-8")


@contextmanager
def serving(folder: Path, dsn: str) -> Iterator[tuple[ServerProcess, Tarry]]:
    with start_server(folder, dsn) as server, client_of(server) as tarry:
        yield server, tarry


def guarded(tarry: Tarry, *keys: str, guard: str = "unpaid", delay: str = SOON) -> list[Receipt]:
    return [tarry.publish("orders", {"remind": key}, key=key, delay=delay, guard=guard) for key in keys]


def state(tarry: Tarry, receipt: Receipt) -> str:
    return str(tarry.message(receipt.id)["state"])


def until(tarry: Tarry, receipt: Receipt, wanted: str) -> None:
    wait_until(lambda: state(tarry, receipt) == wanted)


def one_guard(tarry: Tarry, name: str = "unpaid") -> dict[str, Any]:
    return next(one for one in tarry.guards() if one["guard"] == name)


def metric(server: ServerProcess, name: str) -> float:
    text = httpx.get(f"{server.url}/metrics").text
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def refuses_what_is_wrong(tarry: Tarry) -> None:
    for fields, pointer in (
        ({"guard": "unpaid", "key": "order-1"}, "/delay"),
        ({"guard": "unpaid", "delay": "1h"}, "/key"),
        ({"guard": "unpayed", "key": "order-1", "delay": "1h"}, "/guard"),
    ):
        with pytest.raises(BadRequest, match=pointer):
            tarry.publish("orders", 1, **fields)  # type: ignore[arg-type]
    assert not list(tarry.topics()), "nothing was done"


def test_true_is_sent_and_false_ends(house: House, mysql_dsn: str, tmp_path: Path) -> None:
    declare(tmp_path, house)
    house.put(("order-1", "UNPAID"), ("order-2", "PAID"), ("order-4", "UNPAID"))
    with serving(tmp_path, mysql_dsn) as (server, tarry):
        refuses_what_is_wrong(tarry)
        sent, paid, none = guarded(tarry, "order-1", "order-2", "order-3")
        timer = tarry.set_timer("orders", "order-4", 4, delay=SOON, guard="unpaid")
        lines = b'{"body": 5, "key": "order-1", "delay": "100ms", "guard": "unpaid"}\n{"body": 6}\n'
        headers = {"content-type": "application/x-ndjson"}
        answer = httpx.post(f"{server.url}/v1/topics/orders/messages", content=lines, headers=headers)
        assert answer.text.count('"id"') == 2
        until(tarry, sent, "published")
        until(tarry, paid, "suppressed")
        until(tarry, none, "suppressed")
        wait_until(lambda: tarry.timer("orders", "order-4").state == "published")
        assert timer.id == tarry.timer("orders", "order-4").id
        wait_until(lambda: tarry.topic("orders")["pending"] == 0)
        topic = tarry.topic("orders")
        assert (topic["accepted"], topic["streamed"], topic["suppressed"], topic["cancelled"]) == (6, 4, 2, 0)
        assert [one["what"] for one in tarry.message(paid.id)["life"]] == ["scheduled", "suppressed"]
        found = {one["id"]: one["guard"] for one in tarry.find("orders", state="suppressed")}
        assert found == {paid.id: "unpaid", none.id: "unpaid"}
        assert tarry.message(paid.id)["guard"] == "unpaid"
        assert tarry.cancel(paid.id) == "suppressed"
        with pytest.raises(Suppressed):
            tarry.reschedule(paid.id, delay="1h")
        (later,) = guarded(tarry, "order-99", delay="1h")
        assert tarry.message(later.id)["guard"] == "unpaid"
        assert [one["guard"] for one in tarry.find("orders", state="scheduled")] == ["unpaid"]
        assert tarry.cancel(later.id) == "cancelled"
        assert "guard" not in tarry.message(later.id)
        assert metric(server, 'tarry_messages_suppressed_total{topic="orders"}') == 2
        guard = one_guard(tarry)
        assert (guard["waiting"], guard["holds"], guard["declared"]) == (0, None, True)
        assert "pw" not in str(tarry.guards()).replace(house.user, "")
        assert "***" in guard["dsn"]


def lock(house: House) -> Callable[[], None]:
    """Somebody locks the table; the answer lets it go."""
    other = pymysql.connect(
        host=house.connection.host,
        port=house.connection.port,
        user=house.connection.user,
        password=house.connection.password,
        database=house.database,
    )
    with other.cursor() as cursor:
        cursor.execute("LOCK TABLES orders WRITE")
    return lambda: other.close() if other.open else None


class Fault:
    """What makes a guard fail, and what mends it."""

    condition = "status = 'UNPAID'"
    told = ""

    def __init__(self, house: House) -> None:
        self.house = house

    def begin(self) -> None: ...

    def mend(self) -> None: ...


class Locked(Fault):
    """Its table is locked: every question takes too long."""

    told = "."

    def begin(self) -> None:
        self.let_go = lock(self.house)

    def mend(self) -> None:
        self.let_go()


class Slow(Fault):
    """Its condition takes longer than it may, for as long as there is a row in another table."""

    condition = "SLEEP((SELECT COUNT(*) FROM slow) * 0.9) = 0 AND status = 'UNPAID'"
    told = "no answer within 300ms"

    def begin(self) -> None:
        self.house.run(f"CREATE TABLE `{self.house.database}`.slow (a INT)")
        self.house.run(f"INSERT INTO `{self.house.database}`.slow VALUES (1)")

    def mend(self) -> None:
        self.house.run(f"DELETE FROM `{self.house.database}`.slow")


class Gone(Fault):
    """Its table is gone."""

    told = "no column"

    def begin(self) -> None:
        self.house.run(f"RENAME TABLE `{self.house.database}`.orders TO `{self.house.database}`.away")

    def mend(self) -> None:
        # With its rows, at once: who asks a table that is empty hears a no.
        self.house.run(f"RENAME TABLE `{self.house.database}`.away TO `{self.house.database}`.orders")


class TwoRows(Fault):
    """There are two rows for each key."""

    told = "two rows for one key"

    def begin(self) -> None:
        self.house.put(("order-1", "PAID"), ("order-2", "PAID"))

    def mend(self) -> None:
        self.house.run(f"DELETE FROM `{self.house.database}`.orders WHERE status = 'PAID'")
        self.house.run(f"DELETE FROM `{self.house.database}`.orders WHERE number = 'order-2'")


class Refused(Fault):
    """Its user may not come in."""

    told = "."

    def begin(self) -> None:
        self.house.run(f"ALTER USER '{self.house.user}' IDENTIFIED BY 'other'")

    def mend(self) -> None:
        self.house.run(f"ALTER USER '{self.house.user}' IDENTIFIED BY 'pw'")


LONG = [pytest.param(kind, marks=pytest.mark.long) for kind in (Locked, TwoRows, Refused)]
"""What the asker meets as it meets the other two, or what test_guardroom.py and test_question.py try."""


@pytest.mark.parametrize("kind", [Slow, Gone, *LONG])
def test_held_until_it_is_mended(kind: type[Fault], house: House, mysql_dsn: str, tmp_path: Path) -> None:
    house.put(("order-1", "UNPAID"), ("order-2", "PAID"))
    fault = kind(house)
    declare(tmp_path, house, fault.condition)
    fault.begin()
    with serving(tmp_path, mysql_dsn) as (server, tarry):
        yes, no = guarded(tarry, "order-1", "order-2")
        neighbours = [tarry.publish("others", number, delay=SOON) for number in range(20)]
        wait_until(lambda: "guard_holds" in server.tail(100_000))
        for neighbour in neighbours:
            until(tarry, neighbour, "published")
        wait_until(lambda: one_guard(tarry)["waiting"] == 2)
        told = re.search(r".*guard_holds.*", server.tail(100_000))
        assert told is not None
        assert re.search(fault.told, told[0]), told[0]
        assert metric(server, 'tarry_guard_failures_total{guard="unpaid"}') >= 1
        assert metric(server, 'tarry_guard_waiting_messages{guard="unpaid"}') == 2
        assert [state(tarry, one) for one in (yes, no)] == ["scheduled"] * 2
        wait_until(lambda: re.search(fault.told, tarry.message(yes.id).get("held", "")) is not None)
        fault.mend()
        until(tarry, yes, "published")
        until(tarry, no, "suppressed")
        assert not [one for one in (yes, no) if "held" in tarry.message(one.id)]
        assert one_guard(tarry)["waiting"] == 0


def test_undeclared_is_held_and_told_until_a_server_declares_it(house: House, mysql_dsn: str, tmp_path: Path) -> None:
    house.put(("order-1", "UNPAID"), ("order-2", "PAID"))
    knowing, unknowing = tmp_path / "knowing", tmp_path / "unknowing"
    knowing.mkdir()
    unknowing.mkdir()
    declare(knowing, house)
    with serving(knowing, mysql_dsn) as (_, tarry):
        yes, no = guarded(tarry, "order-1", "order-2", delay="3s")
    with serving(unknowing, mysql_dsn) as (server, tarry):
        wait_until(lambda: "guard_undeclared" in server.tail(100_000))
        wait_until(lambda: "guard_holds" in server.tail(100_000))
        wait_until(lambda: one_guard(tarry)["waiting"] == 2)
        assert not one_guard(tarry)["declared"]
        assert [state(tarry, one) for one in (yes, no)] == ["scheduled"] * 2
        with serving(knowing, mysql_dsn):
            until(tarry, yes, "published")
            until(tarry, no, "suppressed")


def test_killed_while_it_holds(house: House, mysql_dsn: str, tmp_path: Path) -> None:
    """None is lost, and none is sent twice or against its guard."""
    keys = [f"order-{number}" for number in range(40)]
    house.put(*((key, "UNPAID" if number % 2 else "PAID") for number, key in enumerate(keys)))
    declare(tmp_path, house)
    let_go = lock(house)
    server = ServerProcess(tmp_path, mysql_dsn)
    try:
        server.start()
        with client_of(server) as tarry:
            receipts = guarded(tarry, *keys)
            cancelled = receipts.pop()
            wait_until(lambda: one_guard(tarry)["waiting"] == len(keys))
            assert tarry.cancel(cancelled.id) == "cancelled", "a cancel does not wait for a guard"
        server.kill()
        server.start()
        threading.Timer(1.0, let_go).start()
        with client_of(server) as tarry:
            for number, receipt in enumerate(receipts):
                until(tarry, receipt, "published" if number % 2 else "suppressed")
            topic = tarry.topic("orders")
            counts = [topic[name] for name in ("accepted", "streamed", "suppressed", "cancelled", "pending")]
            assert counts == [40, 19, 20, 1, 0]
    finally:
        server.kill()


def test_how_to_remind_unless_done(house: House, mysql_dsn: str, tmp_path: Path) -> None:
    """As it is printed, with this house's table and user."""
    page = (Path(__file__).parents[2] / "docs/how-to/remind-unless-done.md").read_text("utf-8")
    (declared,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    dsn = re.search('dsn = "(.*)"', declared)
    assert dsn is not None
    for printed, here in (("shop.orders", f"{house.database}.orders"), (dsn[1], house.dsn)):
        assert printed in declared
        declared = declared.replace(printed, here)
    (tmp_path / "tarry.toml").write_text(declared, "utf-8")
    house.put(("order-7", "UNPAID"), ("order-8", "PAID"))
    with serving(tmp_path, mysql_dsn) as (server, _):
        said: list[str] = []
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
            program = block.replace("http://127.0.0.1:8277", server.url)
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            said += done.stdout.splitlines()
        assert said == ["scheduled scheduled", "remind of order-7", "['order-8']"]
        assert json.loads(command(server.url, "guards", "--json").stdout)["guard"] == "unpaid"
