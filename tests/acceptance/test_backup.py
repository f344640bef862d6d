"""The how-to of backups, word for word: publish, back up, destroy, restore. What came before is there, at its time."""

import os
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from support.server import client_of, start_server
from support.servers import skip_or_fail
from support.waiting import wait_until
from tarry.client import NotFound, Tarry
from tarry.service.demo.server_process import ServerProcess

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "backup.md"
QUIET = {"TARRY_LADDER": "50ms", "TARRY_MAX_LEASE": "1h"}


def blocks(heading: str) -> list[str]:
    """The commands of a section."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def run(folder: Path, commands: str) -> None:
    environment = os.environ | {"HOME": str(folder)}
    done = subprocess.run(
        ["sh", "-euc", commands], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def begin(tarry: Tarry) -> tuple[str, str, str]:
    """One is done with, one in the stream, one due soon, one due later: the ids of the last three."""
    tarry.publish("orders", "done")
    claim = tarry.claim("orders", "billing", wait="5s")
    assert claim is not None
    tarry.ack(claim)
    there = tarry.publish("orders", "there").id
    soon = tarry.publish("orders", "soon", delay="2s").id
    return there, soon, tarry.publish("orders", "later", delay="1h").id


def go_on(tarry: Tarry, later: str) -> str:
    """What comes after the backup: a message that will be lost, a cancel that will be undone."""
    assert tarry.cancel(later) == "cancelled"
    return tarry.publish("orders", "after", delay="1h").id


def look(tarry: Tarry, ids: tuple[str, str, str], after: str) -> None:
    """Nothing of before is lost, doubled or early; what came after is not there."""
    there, soon, later = ids
    with pytest.raises(NotFound):
        tarry.message(after)
    assert tarry.message(later)["state"] == "scheduled"
    due = datetime.fromisoformat(tarry.message(soon)["deliver_at"])
    got: list[object] = []

    def all_came() -> bool:
        claim = tarry.claim("orders", "billing", wait="1s", lease="1h")
        if claim is not None:
            got.extend(message.body for message in claim.messages)
            assert "soon" not in got or datetime.now(UTC) >= due
        return len(got) >= 2

    wait_until(all_came)
    assert got == ["there", "soon"]
    life = {one["what"]: datetime.fromisoformat(one["at"]) for one in tarry.message(soon)["life"]}
    assert life["promoted"] >= due
    assert tarry.message(there)["life"][-1]["what"] == "claimed"
    assert tarry.group("orders", "billing")["backlog"] == 0


def test_the_embedded_store(tmp_path: Path) -> None:
    if shutil.which("sqlite3") is None:
        skip_or_fail("no sqlite3 on PATH")
    back_up, restore, _doctor = blocks("The embedded store")
    with start_server(tmp_path, env=QUIET) as server:
        with client_of(server) as tarry:
            ids = begin(tarry)
            run(tmp_path, back_up)
            after = go_on(tarry, ids[2])
        server.kill()
        (tmp_path / "tarry.db").write_bytes(b"no database any more")
        run(tmp_path, restore)
        again(server, ids, after)


def test_mysql(tmp_path: Path, mysql_dsn: str) -> None:
    if shutil.which("mysqldump") is None:
        skip_or_fail("no mysqldump on PATH")
    back_up, restore = blocks("MySQL and MariaDB")
    parts = urlsplit(mysql_dsn)
    name = parts.path.removeprefix("/")
    login = [f"user={unquote(parts.username or '')}", f"password={unquote(parts.password or '')}"]
    place = [f"host={parts.hostname}", f"port={parts.port}", "protocol=tcp"]
    (tmp_path / ".my.cnf").write_text("\n".join(["[client]", *login, *place, ""]))
    with start_server(tmp_path, mysql_dsn, env=QUIET) as server:
        with client_of(server) as tarry:
            ids = begin(tarry)
            run(tmp_path, back_up.replace(" tarry ", f" {name} "))
            after = go_on(tarry, ids[2])
        server.kill()
        run(tmp_path, f"mysql -e 'DROP DATABASE {name}; CREATE DATABASE {name}'")
        run(tmp_path, restore.replace(" tarry ", f" {name} "))
        again(server, ids, after)


def again(server: ServerProcess, ids: tuple[str, str, str], after: str) -> None:
    server.start()
    with client_of(server) as tarry:
        look(tarry, ids, after)
