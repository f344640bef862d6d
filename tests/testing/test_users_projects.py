"""Projects of users with tests of their own: the files of the how-tos as they are printed, in a real run of pytest."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.servers import free_port, run_sql

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
TREE = Path(__file__).parents[2] / ".tree"
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
"""-W: a user may have it so."""


@pytest.fixture
def host(mariadb_server: str) -> str:
    return mariadb_server.rpartition("/")[0] + "/"


def write(page: str, home: Path, **words: str) -> list[str]:
    """The page's files, in a folder of the user's own; their names."""
    text = (HOW_TO / page).read_text("utf-8")
    files = re.findall(r"^```python\n# (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for name, file in files:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        for word, here in words.items():
            file = file.replace(word, here)
        (home / name).write_text(file)
    return [name for name, _ in files]


def start(home: Path, *command: str, **environment: str) -> "subprocess.Popen[str]":
    own = {name: value for name, value in os.environ.items() if not name.startswith(("TARRY_", "DJANGO_"))}
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=own | {"PYTHONPATH": f"{home}{os.pathsep}{TREE}"} | environment,
    )


def said_by(run: "subprocess.Popen[str]") -> str:
    said, _ = run.communicate(timeout=240)
    return f"{run.returncode}: {said}"


def databases(host: str) -> set[str]:
    return {str(name) for (name,) in run_sql(host, "SHOW DATABASES")}


def test_the_how_to_on_the_embedded_store(tmp_path: Path) -> None:
    files = write("test-your-code.md", tmp_path)
    assert files == ["conftest.py", "shop.py", "test_shop.py", "test_plain.py", "orders.py", "test_orders.py"]
    assert "4 passed" in said_by(start(tmp_path, *PYTEST, "test_shop.py", "test_plain.py"))


@pytest.mark.long
def test_code_with_an_outbox_twice_at_the_same_time(tmp_path: Path, host: str) -> None:
    """As a project with its DSN in the environment, and in pytest's configuration."""
    write("test-your-code.md", tmp_path)
    before = databases(host)
    (tmp_path / "own.ini").write_text(f"[pytest]\ntarry_dsn = {host.replace('%', '%%')}\n")
    runs = [
        start(tmp_path, *PYTEST, TARRY_TEST_DSN=host),
        start(tmp_path, *PYTEST, "-c", "own.ini", "test_orders.py"),
    ]
    whole, orders = [said_by(run) for run in runs]
    assert "6 passed" in whole
    assert "2 passed" in orders
    assert databases(host) <= before


def test_a_dsn_of_a_fixture_goes_before_the_environments(tmp_path: Path, host: str) -> None:
    write("test-your-code.md", tmp_path)
    fixture = f"import pytest\n@pytest.fixture(scope='session')\ndef tarry_dsn():\n    return {host!r}\n"
    (tmp_path / "conftest.py").write_text((tmp_path / "conftest.py").read_text() + fixture)
    nobody = f"mysql://root@127.0.0.1:{free_port()}/"
    assert "2 passed" in said_by(start(tmp_path, *PYTEST, "test_orders.py", TARRY_TEST_DSN=nobody))


def test_who_has_named_no_server_is_told_how(tmp_path: Path) -> None:
    write("test-your-code.md", tmp_path)
    said = said_by(start(tmp_path, *PYTEST, "test_orders.py"))
    assert "2 errors" in said
    assert "login: this server is on SQLite, which has no outbox: say EmbeddedServer(dsn='mysql://" in said


def test_a_users_test_that_fails_drops_its_database_and_tells_the_failure(tmp_path: Path, host: str) -> None:
    """What the outbox does not do in time is seen: half an hour is another time than an hour."""
    write("test-your-code.md", tmp_path)
    orders = tmp_path / "orders.py"
    orders.write_text(orders.read_text().replace('delay="30m"', 'delay="1h"'))
    before = databases(host)
    said = said_by(start(tmp_path, *PYTEST, "test_orders.py", TARRY_TEST_DSN=host))
    assert "assert 'new' == 'given up'" in said
    assert "1 failed, 1 passed" in said
    assert databases(host) <= before


def test_with_sqlalchemy(tmp_path: Path, host: str) -> None:
    write("sqlalchemy.md", tmp_path, **{"mysql://root:...@db.example/": host})
    assert "1 passed" in said_by(start(tmp_path, *PYTEST, "test_orders.py"))


def test_with_django(tmp_path: Path, host: str) -> None:
    """On its own database for tests, and beside it that of the server, in one transaction."""
    login = re.fullmatch(r"mysql://(\w+):?(\w*)@([\w.]+):(\d+)/", host)
    assert login is not None
    user, password, address, port = login.groups()
    driver = "import pymysql\n\npymysql.install_as_MySQLdb()\nfrom shop.settings import *"
    write(
        "django.md",
        tmp_path,
        **{
            "mysql://root:...@db.example/": host,
            "from shop.settings import *": driver,
            '"db.example"': f'"{address}"',
            "3306": port,
            '"root"': f'"{user}"',
            '"..."': f'"{password}"',
            '"NAME": "shop"': f'"NAME": "shop_{port}"',
        },
    )
    # With a second server in the same process, of which the backend of tasks is to know.
    (tmp_path / "shop" / "again.py").write_text(
        "from shop.tests import Reminders\n\nclass Again(Reminders):\n    pass\n"
    )
    before = databases(host)
    tests = ("shop.tests", "shop.again.Again")
    run = start(tmp_path, "-P", "-m", "django", "test", *tests, DJANGO_SETTINGS_MODULE="shop.mysql")
    said = said_by(run)
    assert run.returncode == 0, said
    assert "Ran 2 tests" in said
    assert databases(host) <= before
