"""The how-tos of two servers behind HAProxy and of upgrading them, as they stand: a real HAProxy, TLS and a key."""

import os
import random
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support import servers
from support.generations import adding
from support.nginx import nginx
from support.rolling import Load
from support.serving import Served, served
from support.typist import Typist, blocks_of
from support.waiting import wait_until
from tarry.client import Tarry

HOW_TO = Path(__file__).parents[2] / "docs/how-to"
ENVIRONMENT = {"TARRY_CLIENT_TIMEOUT": "5s", "TARRY_LADDER": ",".join(["250ms"] * 16)}


class Reader(Typist):
    """Of both pages, with servers on one database."""

    def __init__(self, folder: Path, dsn: str, stack: ExitStack) -> None:
        super().__init__(folder, "8277", "8278", "8443", TARRY_DSN=dsn, **ENVIRONMENT)
        self._stack = stack
        self.servers: dict[str, Served] = {}

    def serve(self, block: str, **environment: str) -> None:
        """Starts the server of a block, under its name."""
        words = self.local(block).split()[2:]
        name = words[words.index("--node") + 1]
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        if name not in self.servers:
            self.servers[name] = self._stack.enter_context(served(folder))
        server = self.servers[name]
        # Started anew, it takes this program unless another is named.
        server.environment = self.environment | environment
        server.start(*words)
        assert server.process.poll() is None, server.log

    @property
    def url(self) -> str:
        return f"https://localhost:{self.ports['8443']}"

    @property
    def key(self) -> str:
        return (self.folder / "ops.key").read_text().strip()

    @contextmanager
    def stopped_with(self, name: str) -> Iterator[dict[str, str]]:
        """For the block that stops a server: its process, which is ours and is to be waited for."""
        process = self.servers[name].process
        waiting = threading.Thread(target=process.wait)
        waiting.start()
        yield {"SERVER": str(process.pid)}
        waiting.join(30)
        assert process.returncode == 0

    @contextmanager
    def haproxy(self, page: str) -> Iterator[None]:
        """HAProxy with the page's configuration, but for its places."""
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
        if program is None:
            servers.skip_or_fail("no haproxy on PATH")
        for known, own in {
            "bind :443": f"bind 127.0.0.1:{self.ports['8443']}",
            "/etc/ssl/": f"{self.folder}/",
        }.items():
            assert known in page
            page = page.replace(known, own)
        config, log = self.folder / "haproxy.cfg", self.folder / "haproxy.log"
        config.write_text(self.local(page))
        with log.open("wb") as out:
            process = subprocess.Popen([program, "-W", "-db", "-f", str(config)], stdout=out, stderr=out)
        try:
            yield
        except BaseException:
            print(log.read_text())
            raise
        finally:
            process.terminate()
            process.wait(10)


@pytest.fixture
def reader(mysql_server: str, fresh_database: Callable[[str], str], tmp_path: Path) -> Iterator[Reader]:
    if shutil.which("curl") is None or shutil.which("openssl") is None:
        pytest.skip("no curl or no openssl on PATH")
    with ExitStack() as stack:
        reader = Reader(tmp_path, fresh_database(mysql_server), stack)
        (certificate,) = (block for block in re.findall(r"^openssl req .*$", _keys_and_tls(), re.M))
        reader.sh(certificate)
        reader.sh("cat tarry.pem tarry.key.pem > tarry-and-key.pem")
        yield reader


def _keys_and_tls() -> str:
    return (HOW_TO / "keys-and-tls.md").read_text("utf-8")


@pytest.fixture
def trusting(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients in this process trust the certificate, too."""
    monkeypatch.setenv("SSL_CERT_FILE", str(reader.folder / "tarry.pem"))


@pytest.mark.usefixtures("trusting")
def test_two_servers(reader: Reader) -> None:
    page = blocks_of("several-servers.md")
    making, calling, stopping = page["sh"]
    reader.sh(making)
    for block in page["serve"]:
        reader.serve(block)
    with reader.haproxy(page["haproxy"][0]):
        wait_until(lambda: is_asked(reader))
        told = reader.sh(calling)
        assert '{"order": 7}' in told
        assert re.search(r"^0\s+a\s", told, re.M)
        assert re.search(r"^1\s+b\s", told, re.M)
        with Tarry(reader.url, key=reader.key, deadline=0) as tarry:
            polls: list[object] = []
            poll = threading.Thread(target=lambda: polls.append(tarry.claim("empty", "g", client="c", wait="2s")))
            began = time.monotonic()
            poll.start()
            poll.join()
            assert polls == [None]
            assert time.monotonic() - began > 1.9
            with reader.stopped_with("a") as environment:
                reader.sh(stopping, **environment)
            for number in range(20):
                tarry.publish("orders", number)  # one try: nobody needs to try again


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("trusting")
def test_two_servers_behind_nginx(reader: Reader) -> None:
    page = blocks_of("several-servers.md")
    reader.sh(page["sh"][0])
    for block in page["serve"]:
        reader.serve(block)
    (one,) = blocks_of("keys-and-tls.md")["nginx"]
    server = one[one.index("server {\n    listen") :]
    config = f"{reader.local(page['nginx'][0])}{server}"
    with nginx(reader.folder, reader.ports["8443"], config), Tarry(reader.url, key=reader.key, deadline=0) as tarry:
        assert {tarry.publish("orders", number).state for number in range(20)} == {"published"}
        with reader.stopped_with("a") as environment:
            reader.sh(page["sh"][2], **environment)
        for number in range(20):
            tarry.publish("orders", number)  # one try: nobody needs to try again


@pytest.mark.usefixtures("trusting")
def test_many_lines_pass_haproxy(reader: Reader) -> None:
    """In chunks: their answers come meanwhile, as many as they are."""
    page = blocks_of("several-servers.md")
    reader.sh(page["sh"][0])
    reader.serve(page["serve"][0])
    line, count = b'{"body": "%b"}\n' % (b"x" * 970), 12_000
    command = ["curl", "-sNT", ".", "-X", "POST", "--cacert", "tarry.pem", "-H", "Content-Type: application/x-ndjson"]
    command += ["-H", f"Authorization: Bearer {reader.key}", f"{reader.url}/v1/topics/lines/messages"]
    with reader.haproxy(page["haproxy"][0]):
        wait_until(lambda: is_asked(reader, "a"))
        with subprocess.Popen(command, cwd=reader.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as curl:
            assert curl.stdin is not None
            assert curl.stdout is not None
            answers = curl.stdout
            curl.stdin.write(line)
            curl.stdin.flush()
            assert b'"published"' in answers.readline()
            rest: list[bytes] = []
            reading = threading.Thread(target=lambda: rest.extend(answers.readlines()))
            reading.start()
            for _ in range(count // 100):
                curl.stdin.write(line * 100)
            curl.stdin.close()
            reading.join(60)
    assert len(rest) == count
    assert all(b'"published"' in told for told in rest)


def is_asked(reader: Reader, names: str = "ab") -> bool:
    """HAProxy has found a server ready, and these servers know each other."""
    with Tarry(reader.url, key=reader.key) as tarry:
        return {one["node"] for one in tarry.nodes()} == set(names)


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("trusting")
@pytest.mark.long
def test_upgrading(reader: Reader, next_program: Path) -> None:
    """Under load, through HAProxy: clients see nothing of it that they do not put right with another try."""
    page, upgrade = blocks_of("several-servers.md"), blocks_of("upgrade.md")
    asking, stopping, waiting, looking = upgrade["sh"]
    new = {"PYTHONPATH": os.fspath(next_program)}
    reader.sh(page["sh"][0])
    for block in page["serve"]:
        reader.serve(block)
    stay = f"servers that know {adding('mysql').beside:04} may stay at work"
    assert stay in reader.sh(f"{asking.strip()} || true", **new)
    load = Load(random.randrange(1 << 30))
    load.add("haproxy", reader.url, reader.key)
    with reader.haproxy(page["haproxy"][0]), load.running():
        load.wait_for_work("haproxy")
        for name, block in zip("ab", page["serve"], strict=True):
            with reader.stopped_with(name) as environment:
                reader.sh(stopping, **environment)
            reader.serve(upgrade["serve"][0] if name == "a" else block, **new)
            reader.sh(waiting)
            load.wait_for_work("haproxy")
        told = reader.sh(looking, TARRY_URL=reader.url, TARRY_KEY=reader.key)
        assert len(re.findall(rf"^\d+\s+[ab]\s.*\s{adding('mysql').version}\s", told, re.M)) == 2
        with reader.stopped_with("b") as environment:  # and back
            reader.sh(stopping, **environment)
        reader.serve(page["serve"][1])
        load.wait_for_work("haproxy")
    with Tarry(f"http://127.0.0.1:{reader.ports['8277']}", key=reader.key) as tarry:
        again = load.check(lambda id_: tarry.message(id_)["life"])
    print(f"published {dict(load.published)}, again {dict(again)}, without an answer {dict(load.doubts)}")
    for server in reader.servers.values():
        assert server.stop() == 0


def test_every_block_is_tried() -> None:
    count = {
        page: {kind: len(texts) for kind, texts in blocks_of(page).items()}
        for page in ("several-servers.md", "upgrade.md")
    }
    assert count == {
        "several-servers.md": {"sh": 3, "serve": 2, "haproxy": 1, "nginx": 1},
        "upgrade.md": {"sh": 4, "serve": 1},
    }
