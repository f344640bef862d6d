"""A row at an offset that nobody drew, under a real server: nothing is filled, nothing is passed, and it is said."""

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx

from support.server import client_of, start_server
from support.waiting import wait_until

COLUMNS = "nonce, `key`, ordering_key, tag, headers, content_type, body, accepted_at, deliver_at, streamed_at"


def test_a_wild_row_stops_its_queue_and_is_told_of(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, client_of(server) as tarry:

        def sealing() -> list[str]:
            checks = httpx.get(f"{server.url}/readyz", params={"verbose": ""}).json()["checks"]
            return [check["detail"] for check in checks if check["check"] == "sealing"]

        def bodies() -> list[object]:
            return [message.body for message in tarry.pull("orders", 0, 0, max=100).messages]

        tarry.publish("orders", 1)
        assert sealing() == []
        server.kill()
        with closing(sqlite3.connect(tmp_path / "tarry.db")) as store, store:
            store.execute(
                f"INSERT INTO message (queue_id, `offset`, id, {COLUMNS})"
                f" SELECT queue_id, 5000000, id + 4096, {COLUMNS} FROM message"
            )
        server.start()
        wait_until(lambda: bool(sealing()))
        assert sealing()[0].startswith("queue 0 of orders stands still: its offsets 1 to 4999999 are without a message")
        assert "tarry_queues_standing 1.0" in httpx.get(f"{server.url}/metrics").text
        assert "queue_stands_still" in server.tail(100_000)
        tarry.publish("orders", 2)
        assert bodies() == [1, 2], "not the row behind the hole"
        with closing(sqlite3.connect(tmp_path / "tarry.db", timeout=30)) as store, store:
            assert store.execute("SELECT COUNT(*) FROM message").fetchone() == (3,), "no tombstones"
            store.execute("DELETE FROM message WHERE `offset` = 5000000")
        wait_until(lambda: not sealing())
        tarry.publish("orders", 3)
        assert bodies() == [1, 2, 3]
