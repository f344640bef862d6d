"""An embedded store of before, that took values of another type of somebody's own SQL, starts with them."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from support.server import start_server
from tarry.service.demo.server_process import ServerProcess

MESSAGES = "/v1/topics/orders/messages"
TIME = re.compile(r"[-\d]{10}T[:\d]{8}(\.\d+)?Z")
WAITING = {
    "due is a text": "UPDATE delay SET due = 'x' WHERE id = {id}",
    "due is bytes": "UPDATE delay SET due = X'78' WHERE id = {id}",
    "due has a fraction": "UPDATE delay SET due = 1.5 WHERE id = {id}",
    "a shard": "UPDATE delay SET shard = ((shard + 1) % 16) || 'x' WHERE id = {id}",  # taken for its number, and wrong
    "an id": "UPDATE delay SET id = ((id + 1) % 16) || 'x' WHERE id = {id}",
    "a queue": "UPDATE delay SET queue_id = 'x' WHERE id = {id}",
    "a pointer": "INSERT INTO moved (shard, due, id) SELECT shard, 'x', id FROM delay WHERE id = {id}",
    "a body": "UPDATE delay SET body = 7 WHERE id = {id}",
    "a key": "UPDATE delay SET `key` = 7 WHERE id = {id}",
}
STREAMED = {
    "a time of delivery": "UPDATE message SET deliver_at = 'x' WHERE id = {id}",
    "a time with a fraction": "UPDATE message SET accepted_at = 1.5 WHERE id = {id}",
    "an offset": "UPDATE message SET `offset` = `offset` + 0.5 WHERE id = {id}",
    "a body": "UPDATE message SET body = 7 WHERE id = {id}",
    "a key": "UPDATE message SET `key` = 7 WHERE id = {id}",
    "headers": "UPDATE message SET headers = 7 WHERE id = {id}",
    "a content type": "UPDATE message SET content_type = 3 WHERE id = {id}",
    "an end": "UPDATE message SET expires_at = 'x' WHERE id = {id}",
}


def publish(server: ServerProcess, *drafts: dict[str, Any]) -> list[str]:
    answer = httpx.post(f"{server.url}{MESSAGES}", json={"messages": list(drafts)}, timeout=10)
    assert answer.status_code == 201, answer.text
    return [one["id"] for one in answer.json()["messages"]]


def claimed(server: ServerProcess, many: int) -> dict[str, Any]:
    """What comes within a few seconds, until so many have, by id."""
    found: dict[str, Any] = {}
    for _ in range(10):
        url = f"{server.url}/v1/topics/orders/groups/billing/claim"
        answer = httpx.post(url, json={"client": "c", "max": 100, "wait": "2s"}, timeout=20)
        assert answer.status_code == 200, answer.text
        found |= {one["id"]: one for one in answer.json()["messages"]}
        if len(found) >= many:
            return found
    raise AssertionError(f"{len(found)} messages in place of {many}")


def test_a_file_of_before_starts_with_what_it_took_and_nobody_s_neighbours_stay(tmp_path: Path) -> None:
    path = tmp_path / "tarry.db"
    with start_server(tmp_path) as server:
        streamed = publish(server, *({"body": number} for number in range(len(STREAMED) + 2)))
        waiting = publish(server, *({"body": number, "delay": "3s"} for number in range(len(WAITING) + 2)))
        assert server.stop() == 0
        with closing(sqlite3.connect(path, isolation_level=None)) as theirs:
            theirs.execute("PRAGMA writable_schema = ON")
            for table, text in theirs.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall():
                bare = re.sub(r", CHECK \(typeof\(`\w+`\) IN \([^)]*\)\)", "", text)
                theirs.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (bare, table))
        with closing(sqlite3.connect(path, isolation_level=None)) as theirs:
            for ids, statements in ((streamed, STREAMED), (waiting, WAITING)):
                for id_, statement in zip(ids[1:-1], statements.values(), strict=True):
                    assert theirs.execute(statement.format(id=id_)).rowcount == 1
        server.start()
        astray = {waiting[1 + [*WAITING].index(name)] for name in ("a shard", "an id", "a queue")}
        found = claimed(server, len(streamed) + len(waiting) - len(astray))
        assert found.keys() == {*streamed, *waiting} - astray
        pulled = httpx.get(f"{server.url}/v1/topics/orders/queues/0/messages", timeout=10)
        listed = httpx.get(f"{server.url}/v1/messages", params={"topic": "orders", "state": "published"}, timeout=10)
        for answer in (pulled, listed):
            assert answer.status_code == 200, answer.text
            assert all(TIME.fullmatch(one[at]) for one in answer.json()["messages"] for at in one if at.endswith("_at"))
        assert server.log.read_text().count("rows_put_right") == 1
