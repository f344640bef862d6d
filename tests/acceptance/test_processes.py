"""`tarry serve --processes`: several processes behind one address, whatever happens to one of them or to all."""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import define, field

from support.blocking import Blocking
from support.certificates import write_certificates
from support.processes import is_there
from support.servers import database
from support.serving import Served, served
from support.waiting import wait_until
from tarry.client import Delivery, Tarry
from tarry.service.demo.server_process import free_port, python_path

PAGES = ("/ui", "/ui/pictures")
SAMPLE = re.compile(r'(\w+)\{process="(\d)"([^}]*)\} (\S+)')


@define
class Several:
    """A supervisor with two processes, which serve."""

    server: Served
    port: int
    dsn: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def events(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.server.log.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def pid(self, process: int) -> int:
        """Of the one that was started last."""
        return int([line["pid"] for line in self.events("process_started") if line["process"] == process][-1])

    def metrics(self) -> dict[tuple[str, str], float]:
        """Sums over labels, by name and process."""
        sums: dict[tuple[str, str], float] = {}
        for name, process, _, value in SAMPLE.findall(httpx.get(f"{self.url}/metrics").text):
            sums[name, process] = sums.get((name, process), 0) + float(value)
        return sums

    def up(self) -> int:
        """How many serve."""
        return int(sum(value for (name, _), value in self.metrics().items() if name == "tarry_process_up"))


@contextmanager
def several(folder: Path, dsn: str, *flags: str) -> Iterator[Several]:
    with served(folder) as server:
        port = free_port()
        server.start("--dsn", dsn, "--processes", "2", "--listen", f"127.0.0.1:{port}", "--node", "box", *flags)
        assert server.process.poll() is None, server.log
        yield Several(server, port, dsn)


@pytest.fixture
def pair(mysql_dsn: str, tmp_path: Path) -> Iterator[Several]:
    with several(tmp_path, mysql_dsn) as pair:
        wait_until(lambda: pair.up() == 2)
        yield pair


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def lasting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    """A pair for all of the module who leave it as it was."""
    with (
        database(request.getfixturevalue(f"{request.param}_server")) as dsn,
        several(tmp_path_factory.mktemp("lasting"), dsn) as pair,
    ):
        wait_until(lambda: pair.up() == 2)
        yield pair


def is_gone(pid: int) -> bool:
    return not is_there(pid)


@define
class Publisher:
    """Publishes one message after the other, each over a connection of its own, and tries nothing twice."""

    port: int
    accepted: list[str] = field(factory=list[str])
    failed: list[str] = field(factory=list[str])

    def run(self, done: threading.Event) -> None:
        while not done.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
            try:
                connection.request("POST", "/v1/topics/orders/messages", '{"body": 1}', {"Connection": "close"})
                answer = connection.getresponse()
                text = answer.read()
                if answer.status == 201:
                    self.accepted.append(json.loads(text)["id"])
                else:
                    self.failed.append(f"{answer.status} {text[:200]!r}")
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(repr(error))
            finally:
                connection.close()


@contextmanager
def working(*works: Callable[[threading.Event], None]) -> Iterator[None]:
    done = threading.Event()
    threads = [threading.Thread(target=work, args=(done,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def drained(url: str, messages: int) -> set[str]:
    """The ids of what a group is given."""
    seen: set[str] = set()
    with Tarry(url) as tarry:
        while len(seen) < messages:
            claim = tarry.claim("orders", "all", max=1000, wait="1s")
            if claim is None:
                break
            seen |= {message.id for message in claim.messages}
            tarry.ack(claim)
    return seen


def test_all_serve_through_one_port_and_one_of_them_tells_of_all(pair: Several) -> None:
    names = [node["node"] for node in httpx.get(f"{pair.url}/v1/nodes").json()["nodes"]]
    assert sorted(names) == ["box-1", "box-2"]
    clients = [httpx.Client(base_url=pair.url) for _ in range(20)]
    for number in range(80):
        done = clients[number % 20].post("/v1/topics/orders/messages", json={"body": number})
        assert done.status_code == 201
    httpx.put(f"{pair.url}/v1/topics/orders/groups/all", json={"from": "earliest"})
    assert len(drained(pair.url, 80)) == 80
    for client in clients:
        told = client.get("/metrics").text
        found = {process: float(value) for name, process, _, value in SAMPLE.findall(told) if "published_total" in name}
        assert sum(found.values()) == 80
        assert found.keys() == {"1", "2"}
        assert min(found.values()) >= 32, f"each has its share of the connections: {found}"
        assert client.get("/livez").status_code == client.get("/readyz").status_code == 200
    assert sum(value for (name, _), value in pair.metrics().items() if name == "tarry_messages_acked_total") == 80

    def lags() -> list[str]:
        return [line for line in httpx.get(f"{pair.url}/metrics").text.splitlines() if line.startswith("tarry_group_l")]

    wait_until(lambda: lags() != [], 30)
    assert lags() == ['tarry_group_lag_messages{group="all",topic="orders"} 0.0']
    for client in clients:
        client.close()
    page, pictures = (httpx.get(f"{pair.url}{path}", headers={"accept": "text/html"}).text for path in PAGES)
    assert len(re.findall("<span>at box-[12]</span>", page)) == 3, "the dashboard says whose rates it has"
    assert re.search("to first delivery, on box-[12]<", pictures)


def test_many_connections_at_once_are_shared_out_evenly(lasting: Several) -> None:
    with ExitStack() as crowd:
        for _ in range(200):
            crowd.enter_context(socket.create_connection(("127.0.0.1", lasting.port)))

        def shares() -> list[float]:
            return sorted(value for (name, _), value in lasting.metrics().items() if name == "process_open_fds")

        wait_until(lambda: sum(shares()) > 240)
        fewer, more = shares()
        assert fewer >= 0.7 * more


def test_while_one_stops_and_begins_again_nobody_is_refused(pair: Several) -> None:
    publishers = [Publisher(pair.port) for _ in range(4)]

    def accepted() -> int:
        return sum(len(publisher.accepted) for publisher in publishers)

    def has(messages: int) -> bool:
        return accepted() > messages

    httpx.put(f"{pair.url}/v1/topics/orders/groups/all", json={"from": "earliest"})
    with working(*(publisher.run for publisher in publishers)):
        for process in (1, 2, 1):
            before = accepted()
            old = pair.pid(process)
            os.kill(old, signal.SIGTERM)
            wait_until(partial(is_gone, old))
            wait_until(lambda: pair.up() == 2)
            wait_until(partial(has, before + 50))
    assert [failure for publisher in publishers for failure in publisher.failed] == []
    ids = {id_ for publisher in publishers for id_ in publisher.accepted}
    assert drained(pair.url, len(ids)) == ids
    assert {line["code"] for line in pair.events("process_died")} == {0}


def test_one_that_is_killed_comes_back_and_nothing_is_lost(pair: Several) -> None:
    accepted: list[str] = []

    def has(messages: int) -> bool:
        return len(accepted) > messages

    def another(process: int, than: int) -> bool:
        return pair.pid(process) != than

    def publish(done: threading.Event) -> None:
        with Tarry(pair.url) as tarry:
            while not done.is_set():
                accepted.append(tarry.publish("orders", 1).id)

    httpx.put(f"{pair.url}/v1/topics/orders/groups/all", json={"from": "earliest"})
    with working(*[publish] * 4):
        for process in (2, 1):
            before, old = len(accepted), pair.pid(process)
            wait_until(partial(has, before + 50))
            os.kill(old, signal.SIGKILL)
            wait_until(partial(another, process, old))
            wait_until(lambda: pair.up() == 2)
    assert [line["signal"] for line in pair.events("process_died")] == ["SIGKILL"] * 2
    assert drained(pair.url, len(accepted)) >= set(accepted)


def test_all_end_with_the_supervisor(pair: Several) -> None:
    supervisor, pids = pair.server.process.pid, [pair.pid(1), pair.pid(2)]
    os.kill(pids[1], signal.SIGSTOP)  # one whose loop stands still, too
    pair.server.kill()
    wait_until(lambda: not any(map(is_there, pids)), 2)
    # One that serves may find it out by itself, before the kernel has come to it.
    wait_until(lambda: [line["pid"] for line in pair.events("supervisor_gone") if "pid" in line] == [supervisor])
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", pair.port))
        sock.listen()


def upload(port: int) -> socket.socket:
    """A request whose body is still on its way, and has been begun to be read."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(
        b"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        b"Content-Type: application/json\r\nContent-Length: 11\r\n\r\n"
    )
    assert sock.recv(1000).startswith(b"HTTP/1.1 100")
    return sock


def test_a_signal_stops_all_when_what_is_under_way_is_done(pair: Several) -> None:
    """It goes to each process, too, as systemd and a terminal send it. That is no second signal."""
    uploads = [upload(pair.port) for _ in range(4)]
    pair.server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: len(pair.events("stopping")) == 2)
    for process in (1, 2):
        os.kill(pair.pid(process), signal.SIGTERM)

    def refused() -> bool:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", pair.port), 1):
            return False
        return True

    wait_until(refused)
    for sock in uploads:
        with sock:
            sock.sendall(b'{"body": 1}')
            assert sock.recv(1000).startswith(b"HTTP/1.1 201")
    assert pair.server.process.wait(20) == 0
    assert [line["code"] for line in pair.events("stopped")] == [0, 0]
    assert pair.events("supervisor_gone") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.cases(1)
def test_a_signal_to_all_while_they_begin_stops_them(mysql_dsn: str, tmp_path: Path, number: int) -> None:
    """Ctrl-C in a terminal: the first process has just been started, and listens to no signal so far."""
    flags = ("--dsn", mysql_dsn, "--processes", "2", "--listen", f"127.0.0.1:{free_port()}")
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "tarry.service.cli.app", "serve", *flags],
            env=os.environ | python_path(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        text = (tmp_path / "server.log").read_text
        wait_until(lambda: "process_started" in text())
        os.killpg(server.pid, number)
        assert server.wait(20) == 0, text()
        assert "Traceback" not in text()
        assert "supervisor_gone" not in text()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_a_second_signal_ends_all_at_once(pair: Several) -> None:
    with upload(pair.port), upload(pair.port):
        pair.server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: len(pair.events("stopping")) == 2)
        began = time.monotonic()
        pair.server.process.send_signal(signal.SIGINT)
        assert pair.server.process.wait(20) == 130
        assert time.monotonic() - began < 3
    assert len(pair.events("stopping_at_once")) == 2


def test_a_process_that_cannot_end_is_killed_after_the_second_signal(pair: Several) -> None:
    stuck = pair.pid(2)
    os.kill(stuck, signal.SIGSTOP)
    pair.server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: len(pair.events("stopped")) == 1)
    pair.server.process.send_signal(signal.SIGTERM)
    assert pair.server.process.wait(20) == 143
    assert not is_there(stuck)


def test_hup_brings_a_new_certificate_to_all(mysql_dsn: str, tmp_path: Path) -> None:
    ca = write_certificates(tmp_path)
    flags = ("--tls-cert", str(tmp_path / "server.pem"), "--tls-key", str(tmp_path / "server-key.pem"))
    with several(tmp_path, mysql_dsn, *flags) as pair:
        wait_until(lambda: len(pair.events("recovered")) == 2)
        assert write_certificates(tmp_path) == ca  # others, of an authority that is made anew, too
        pair.server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: {line["process"] for line in pair.events("certificate_renewed")} == {1, 2})
        context = ssl.create_default_context(cafile=str(ca))
        assert httpx.get(f"https://127.0.0.1:{pair.port}/livez", verify=context).status_code == 200
        assert pair.server.stop() == 0


def test_a_unix_socket_is_shared_too(mysql_dsn: str, tmp_path: Path) -> None:
    path = tmp_path / "tarry.sock"
    with served(tmp_path) as server:
        server.start("--dsn", mysql_dsn, "--processes", "2", "--listen", f"unix:{path}")
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
            wait_until(lambda: 'tarry_process_up{process="2"} 1' in client.get("/metrics").text)
        assert server.stop() == 0
        assert not path.exists()


@pytest.mark.parametrize("many", [1, 2])
def test_any_free_port_is_one_for_all_and_told(mysql_dsn: str, tmp_path: Path, many: int) -> None:
    with served(tmp_path) as server:
        server.start("--dsn", mysql_dsn, "--processes", str(many), "--listen", "127.0.0.1:0")
        (url,) = re.findall(r'"url": "(http://127.0.0.1:\d+)"', server.log)
        assert not url.endswith(":0")
        wait_until(lambda: len(httpx.get(f"{url}/v1/nodes").json()["nodes"]) == many)
        assert {node["url"] for node in httpx.get(f"{url}/v1/nodes").json()["nodes"]} == {url}
        assert server.stop() == 0


def test_the_embedded_store_is_for_one(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        done = server.tarry("serve", "--processes", "2")
        assert done.returncode == 2
        assert done.stderr == (
            "tarry: processes (--processes) is 2, and the embedded store is for one: set dsn to a MySQL or MariaDB"
            " (mysql://user:pw@host/db), or leave processes out\n"
        )
        assert not (tmp_path / "tarry.db").exists()
        assert server.tarry("serve", TARRY_PROCESSES="x").returncode == 2


def test_what_no_process_can_serve_with_is_told_once_and_ends_all(mysql_dsn: str, tmp_path: Path) -> None:
    with served(tmp_path) as server:
        some = ("serve", "--dsn", mysql_dsn, "--processes", "3")
        bad = server.tarry(*some, "--listen", f"127.0.0.1:{free_port()}", "--tls-cert", "no.pem", "--tls-key", "no.pem")
        assert bad.returncode == 1
        assert bad.stderr.count('"cannot_serve"') == 1
        assert "no.pem: No such file or directory" in bad.stderr
        assert "process_died" not in bad.stderr
        open_to_all = server.tarry(*some, "--listen", f"0.0.0.0:{free_port()}")
        assert open_to_all.returncode == 1
        assert open_to_all.stderr.count("there is no key") == 1


def test_a_second_supervisor_on_the_port_is_refused(lasting: Several) -> None:
    listen = f"127.0.0.1:{lasting.port}"
    second = lasting.server.tarry("serve", "--dsn", lasting.dsn, "--processes", "2", "--listen", listen)
    assert second.returncode == 1
    assert f"cannot listen on {listen}" in second.stderr
    assert "process_started" not in second.stderr


@pytest.mark.parametrize("kind", ["threads", "asyncio", "trio"])
@pytest.mark.cases(1)
def test_one_worker_for_many_topics_leaves_nothing_at_any_of_them(lasting: Several, kind: str) -> None:
    topics = [f"work-{kind}-{number}" for number in range(4)]
    seen: Counter[str] = Counter()
    attempts: Counter[int] = Counter()
    lock = threading.Lock()

    def until(many: int, stop: threading.Event) -> Callable[[Delivery], None]:
        def handle(message: Delivery) -> None:
            with lock:
                seen[message.id] += 1
                attempts[message.attempt] += 1
                if len(seen) >= many:
                    stop.set()

        return handle

    with Tarry(lasting.url) if kind == "threads" else Blocking(kind, lasting.url, []) as worker:
        for topic in topics:
            worker.publish_many(topic, ({"body": number} for number in range(500)))
        since = time.monotonic()
        for many in (100, 600, 2000):  # the polls are at both processes, and the goodbye comes to one of them
            stop = threading.Event()
            handle = until(many, stop)
            if len(seen) >= many:  # the round before has handled what it held, which may be all
                stop.set()
            worker.run([(one, handle) for one in topics], "g", pass_message=True, start="earliest", stop=stop)
        assert len(seen) == 2000
        assert set(seen.values()) == set(attempts) == {1}
        assert time.monotonic() - since < 55  # of a lease of 60 s
        assert all(worker.group(topic, "g")["claimed"] == 0 for topic in topics)
