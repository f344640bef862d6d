"""A data-protection request through the front door, on the embedded store and on MariaDB: no byte of it is left."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.server import client_of, start_server
from support.stores import open_tables
from tarry.client import Conflict, NotFound, Tarry
from tarry.service.demo.server_process import ServerProcess

SECRET = "Ada Lovelace, 12 St James's Square"
TABLES = ("message", "delay", "dead", "retry", "redelivery", "parked", "cancelled", "claim", "delivery")


@pytest.fixture(params=["sqlite", "mariadb"])
def placed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[ServerProcess, str]]:
    dsn = f"sqlite:///{tmp_path / 'tarry.db'}"
    if request.param == "mariadb":
        dsn = request.getfixturevalue("fresh_database")(request.getfixturevalue("mariadb_server"))
    with start_server(tmp_path, dsn=dsn) as server:
        yield server, dsn


def found(dsn: str) -> list[str]:
    """The tables with a row in which the secret stands, as another program reads them."""
    with closing(open_tables(dsn)) as tables:
        rows = {table: tables.rows(f"SELECT * FROM `{table}`") for table in TABLES}
    secret = SECRET.encode()
    return [t for t, some in rows.items() if any(isinstance(v, bytes) and secret in v for row in some for v in row)]


@pytest.mark.cases(1)
def test_nothing_of_it_is_left(placed: tuple[ServerProcess, str]) -> None:
    server, dsn = placed
    with client_of(server) as tarry:
        tarry.put_topic("letters")
        for group, ladder in (("dies", []), ("rests", ["1h"]), ("returns", ["1ms", "1h"]), ("late", ["1h"])):
            tarry.put_group("letters", group, ladder=ladder)
        sent = tarry.publish("letters", {"to": SECRET}, headers={"to": SECRET}, key="customer-7")
        waiting = tarry.publish("letters", {"to": SECRET}, delay="1h", key="customer-7")
        for group in ("dies", "rests", "returns"):
            claim = tarry.claim("letters", group, wait="5s")
            assert claim is not None
            tarry.fail(claim, reason=f"no letter box: {SECRET}")
        back = tarry.claim("letters", "returns", wait="5s")
        assert back is not None
        assert back.messages[0].attempt == 2
        assert found(dsn) == ["message", "delay", "dead", "retry", "redelivery"]
        with pytest.raises(Conflict, match="cancel it first"):
            tarry.erase(waiting)
        tarry.cancel(waiting)
        erased = tarry.erase(sent)
        assert (erased.id, erased.lake, erased.lake_at) == (sent.id, "none", None)
        assert tarry.erase(waiting.id).id == waiting.id
        assert found(dsn) == []
        tarry.fail(back)
        _consumers_are_told(tarry, sent.id)
        server.kill()
        server.start()
        told = tarry.message(sent)
        assert told["erased_at"] == erased.erased_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        life = {(line.get("group"), line["what"]) for line in told["life"]}
        assert {("dies", "dead"), ("rests", "failed"), ("returns", "returned"), ("late", "acked")} <= life
        assert found(dsn) == []
        with pytest.raises(NotFound):
            tarry.erase("7")


def _consumers_are_told(tarry: Tarry, id_: str) -> None:
    (letter,) = tarry.dead("letters", "dies")
    assert (letter.message.erased, letter.message.body, letter.message.key) == (True, None, "customer-7")
    assert [one["reason"] for one in letter.attempts] == [None]
    assert tarry.redrive("letters", "dies") == 1
    for group in ("dies", "late"):
        told: list[Any] = []
        for message in tarry.consume("letters", group, limit=1, idle_timeout=10):
            with message:
                told.append((message.id, message.erased, message.body, message.headers, message.content_type))
        assert told == [(id_, True, None, {}, None)]
