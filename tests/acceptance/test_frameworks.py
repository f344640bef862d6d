"""The how-tos for FastAPI and Starlette, Flask, and SQLAlchemy: their files as they are printed, started as they say.

Only addresses are others, half an hour is a tenth of a second, and nobody is patient.
"""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.drivers import DRIVERS
from support.server import start_server
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.service.demo.server_process import free_port, python_path

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
SHORTER = {
    'delay="30m"': 'delay="100ms"',
    "deadline=5.0": "deadline=0.5",
    "workers=4": 'workers=4, wait="100ms"',
    "idle_timeout=2.0": 'idle_timeout=0.5, wait="100ms"',
}


class Site:
    """A user's project: the page's files in a folder, and its commands."""

    def __init__(self, page: str, home: Path, url: str, dsn: str = "") -> None:
        self._home = home
        self._url = url
        self._database = dsn.removeprefix("mysql://")
        text = (HOW_TO / page).read_text("utf-8")
        for path, file in re.findall(r"^```python\n# (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            self.write(path, file)
        assert text.count("```python") == len(list(home.rglob("*.py"))), "each block has the name of its file"
        shell = "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)).splitlines()
        self.asked = [line for line in shell if line.startswith("curl ")]
        self.commands = [line for line in shell if line not in self.asked]
        """What starts something that stays."""
        paths = [str(home), *filter(None, [python_path().get("PYTHONPATH")])]
        own = {name: value for name, value in os.environ.items() if not name.startswith(("TARRY_", "COVERAGE_"))}
        self._environment = own | {"PYTHONPATH": os.pathsep.join(paths), "TARRY_URL": url}

    def write(self, path: str, text: str) -> None:
        """A file, with the addresses of here."""
        (self._home / path).parent.mkdir(parents=True, exist_ok=True)
        text = text.replace("http://127.0.0.1:8277", self._url).replace("shop:...@db.example/tarry", self._database)
        (self._home / path).write_text(text)

    def copy(self, path: str, to: str, *changes: str) -> None:
        """A file once more, where each of the changes stands in place of the one before it."""
        text = (self._home / path).read_text()
        for old, new in zip(changes[::2], changes[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        self.write(to, text)

    def hurry(self) -> None:
        """Half an hour is short, and so is patience."""
        for path in self._home.rglob("*.py"):
            text = path.read_text()
            for long, short in SHORTER.items():
                text = text.replace(long, short)
            path.write_text(text)

    def run(self, *program: str) -> str:
        """A program to its end; what it printed."""
        done = subprocess.run(
            [sys.executable, "-P", *program],
            cwd=self._home,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def test(self) -> str:
        """The page's own tests."""
        return self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", ".")

    @contextmanager
    def started(self, command: str, log: str) -> Generator["subprocess.Popen[Any]", None, None]:
        """A command of the page's, ended by SIGTERM. What it says goes to a file."""
        program, *arguments = command.split()
        with (self._home / log).open("w") as said:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", program, *arguments],
                cwd=self._home,
                env=self._environment,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            # uvicorn passes the signal on to itself when all is done.
            assert process.wait(30) in (0, -signal.SIGTERM)
        except BaseException:
            print(self.said(log))
            raise
        finally:
            process.kill()
            process.wait()

    def said(self, log: str) -> str:
        return (self._home / log).read_text()


def ask(url: str, body: Any = None, method: str | None = None) -> tuple[int, Any]:
    request = urllib.request.Request(
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def on_other_ports(commands: list[str]) -> dict[str, str]:
    """A free port for each that the page names."""
    return {port: str(free_port()) for port in sorted(set(re.findall(r"\b800\d\b", " ".join(commands))))}


def with_ports(command: str, ports: dict[str, str]) -> str:
    return re.sub("|".join(ports), lambda found: ports[found[0]], command)  # at once: 28001 is free, and has 8001 in it


def curled(command: str) -> Any:
    return json.loads(subprocess.check_output(["sh", "-euc", command], text=True, timeout=30))


def test_fastapi_and_starlette(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, Tarry(server.url) as tarry:
        site = Site("fastapi.md", tmp_path / "home", server.url)
        assert "1 passed" in site.test()
        site.hurry()
        site.copy("shop/mailer.py", "shop/refused.py", 'group="mailer"', 'group=""')
        web, mailer = site.commands
        others = ["uvicorn shop.plain:app --port 8002", "uvicorn shop.refused:app --port 8003"]
        ports = on_other_ports([web, mailer, *others])
        urls = {port: f"http://127.0.0.1:{other}" for port, other in ports.items()}
        with ExitStack() as stack:
            for number, command in enumerate((web, mailer, *others)):
                stack.enter_context(site.started(with_ports(command, ports), f"{number}.log"))
            wait_until(lambda: all(answers(url) for url in urls.values()))
            (command,) = site.asked
            placed, again = (curled(with_ports(command, ports)) for _ in range(2))
            assert (placed["state"], again["id"]) == ("scheduled", placed["id"])
            assert ask(f"{urls['8002']}/orders", {"number": 8})[0] == 202
            wait_until(lambda: sorted(site.said("1.log").split("reminded of order ")[1:]) == ["7\n", "8\n"])
            assert ask(f"{urls['8001']}/healthz") == (200, {"consuming": True})
            wait_until(lambda: ask(f"{urls['8003']}/healthz") == (503, {"consuming": False}))
            server.kill()
            assert ask(f"{urls['8000']}/orders", {"number": 9}) == (503, {"detail": "try again"})
            server.start()
        assert tarry.group("orders", "mailer")["acked"] == 2
        assert not list(tarry.clients()), "each has said good-bye"
        assert "is the name of nothing" in site.said("3.log"), "why it did not consume"


def test_flask_behind_gunicorn(tmp_path: Path) -> None:
    """Two processes that have forked with the client, eight threads at a time."""
    with start_server(tmp_path) as server, Tarry(server.url) as tarry:
        site = Site("flask.md", tmp_path / "home", server.url)
        assert "1 passed" in site.test()
        site.hurry()
        web, mailer = site.commands
        ports = on_other_ports([web])
        url = f"http://127.0.0.1:{ports['8000']}"
        with site.started(with_ports(web, ports), "web.log"), site.started(mailer, "mailer.log"):
            wait_until(lambda: answers(url))
            (command,) = site.asked
            assert curled(with_ports(command, ports))["state"] == "scheduled"
            with ThreadPoolExecutor(8) as threads:
                placed = list(threads.map(lambda number: ask(f"{url}/orders/{number}", method="POST"), range(100, 140)))
            for number, (status, receipt) in enumerate(placed, 100):
                assert (status, tarry.message(receipt["id"])["body"]) == (202, {"number": number})
            wait_until(lambda: site.said("mailer.log").count("reminded of order") == 41)
            server.kill()
            assert ask(f"{url}/orders/9", method="POST") == (503, {"detail": "try again"})
            server.start()
        assert tarry.group("orders", "mailer")["acked"] == 41
        assert not list(tarry.clients()), "it has said good-bye"


ON_PURPOSE = """
import asyncio
from shop.models import Order
from shop.orders import bill, place
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from tarry.client import AsyncTarry

async def main():
    engine = create_async_engine("mysql+aiomysql://shop:...@db.example/tarry")
    sessions = async_sessionmaker(engine)
    async with AsyncTarry("http://127.0.0.1:8277") as tarry:
        await tarry.put_group("orders", "on-purpose", ladder=["10ms"], start="latest")
        for number in (1, 2):
            try:
                async with sessions() as session, session.begin():
                    await session.run_sync(place, number)
                    if number == 1:
                        raise KeyError(number)
            except KeyError:
                pass
        async with tarry.consume("orders", group="on-purpose", limit=2, idle_timeout=10.0, wait="100ms") as messages:
            async for message in messages:
                async with message, sessions() as session, session.begin():
                    await session.run_sync(bill, message)
                    order = await session.get_one(Order, message.body["order"])
                    print(order.id, order.state, message.attempt)
                    if message.attempt == 1:
                        raise KeyError("not yet")
    async with sessions() as session:
        print(await session.get(Order, 1))
    await engine.dispose()

asyncio.run(main())
"""


@pytest.mark.long
def test_sessions_of_sqlalchemy(tmp_path: Path, mariadb_server: str, fresh_database: Callable[[str], str]) -> None:
    """With both of its drivers for asyncio, and with rows in another database."""
    dsn = fresh_database(mariadb_server)
    with start_server(tmp_path, dsn) as server, Tarry(server.url) as tarry:
        site = Site("sqlalchemy.md", tmp_path / "home", server.url, dsn)
        site.hurry()
        site.copy("with_async_session.py", "with_asyncmy.py", "aiomysql", "asyncmy", "place, 8", "place, 10")
        for program in ("make_tables.py", "with_session.py", "with_async_session.py", "with_asyncmy.py"):
            site.run(program)
        assert site.run("elsewhere.py") == "published\n"
        with closing(DRIVERS["pymysql"](dsn)) as user, user.cursor() as cursor:
            cursor.execute("SELECT id, state FROM shop_order ORDER BY id")
            assert cursor.fetchall() == ((7, "billed"), (8, "billed"), (10, "billed"))
        assert [tarry.group("orders", name)["acked"] for name in ("billing", "async-billing")] == [1, 3]

        # Neither row nor message of an order that is taken back; nor the work and the ack of a handler that raises.
        site.write("on_purpose.py", ON_PURPOSE)
        before = tarry.topic("orders")["accepted"]
        assert site.run("on_purpose.py") == "2 billed 1\n2 billed 2\nNone\n"
        group = tarry.group("orders", "on-purpose")
        assert (group["acked"], group["retried"], group["backlog"]) == (1, 1, 0)
        assert tarry.topic("orders")["accepted"] == before + 1
