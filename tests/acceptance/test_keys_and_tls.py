"""The how-to of keys and TLS, as it stands: a server behind nothing, and behind nginx."""

import getpass
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support import servers
from support.serving import Served, served
from tarry.service.demo.server_process import free_port

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "docs/how-to/keys-and-tls.md").read_text("utf-8"), re.M | re.S)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator["Reader"]:
    if shutil.which("curl") is None or shutil.which("openssl") is None:
        pytest.skip("no curl or no openssl on PATH")
    with served(tmp_path) as server:
        yield Reader(server)


class Reader:
    """Runs the blocks of the page in its folder, with ports of its own."""

    def __init__(self, server: Served) -> None:
        self.server = server
        self.folder = server.folder
        self.ports = {"8277": str(free_port()), "8443": str(free_port())}
        tarry = self.folder / "tarry"
        tarry.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tarry.service.cli.app "$@"\n')
        tarry.chmod(0o755)
        self.environment = server.environment | {
            "PATH": f"{self.folder}:{server.environment['PATH']}",
            "NO_COLOR": "1",
        }

    def local(self, text: str) -> str:
        # All at once: a port of ours may have one of theirs among its digits.
        return re.sub("|".join(self.ports), lambda known: self.ports[known[0]], text)

    def sh(self, text: str) -> str:
        done = subprocess.run(
            ["sh", "-euc", self.local(text)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"
        return done.stdout

    def python(self, text: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", self.local(text)],
            cwd=self.folder,
            env=self.environment | {"SSL_CERT_FILE": str(self.folder / "tarry.pem")},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def serve(self, text: str) -> None:
        self.server.start(*self.local(text).split()[2:])


def blocks() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for language, text in BLOCKS:
        kind = "serve" if text.startswith("tarry serve") else language
        found.setdefault(kind, []).append(text)
    return found


def test_behind_nothing(reader: Reader) -> None:
    making, certificate, using, asking, changing, renewing, _behind_nginx = blocks()["sh"]
    reader.sh(making)
    for name in ("shop", "billing", "ops"):
        assert re.fullmatch(r"tarry_[\w-]{43}\n", (reader.folder / f"{name}.key").read_text())
    reader.sh(certificate)
    reader.serve(blocks()["serve"][0])
    told = reader.sh(using)
    assert "published" in told
    assert '{"order": 7}' in told
    assert '"topic":"orders"' in reader.sh(asking)
    assert reader.python(blocks()["python"][0]) == "published"
    assert "shop-2" in reader.sh(changing)
    url = f"https://localhost:{reader.ports['8277']}/v1/topics/orders/messages"
    until = time.monotonic() + 5
    statuses = {}
    for name in ("shop", "shop-2"):
        while True:
            key = (reader.folder / f"{name}.key").read_text().strip()
            with httpx.Client(verify=False, headers={"Authorization": f"Bearer {key}"}) as client:
                statuses[name] = client.post(url, json={"body": 1}).status_code
            if statuses[name] == {"shop": 401, "shop-2": 201}[name] or time.monotonic() > until:
                break
            time.sleep(0.1)
    assert statuses == {"shop": 401, "shop-2": 201}
    reader.environment["SERVER"] = str(reader.server.process.pid)
    reader.sh(renewing)
    until = time.monotonic() + 5
    while "certificate_renewed" not in reader.server.log and time.monotonic() < until:
        time.sleep(0.05)
    assert "certificate_renewed" in reader.server.log
    assert reader.server.stop() == 0


@contextmanager
def nginx(reader: Reader, page: str) -> Iterator[None]:
    """nginx with the page's configuration, but for its places."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        servers.skip_or_fail("no nginx on PATH")
    own = {
        "listen 443": f"listen 127.0.0.1:{reader.ports['8443']}",
        "/run/tarry/tarry.sock": str(reader.folder / "tarry.sock"),
        "/etc/ssl/": f"{reader.folder}/",
        "server_name tarry.example;": "server_name tarry.example localhost;",
    }
    for known, ours in own.items():
        assert known in page
        page = page.replace(known, ours)
    paths = "".join(
        f"{name}_temp_path {reader.folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = reader.folder / "nginx.conf"
    user = f"user {getpass.getuser()};\n" if getpass.getuser() == "root" else ""
    config.write_text(
        f"{user}daemon off;\npid {reader.folder}/nginx.pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{page}}}\n"
    )
    with (reader.folder / "nginx.log").open("wb") as log:
        command = [program, "-p", str(reader.folder), "-e", "stderr", "-c", str(config)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 10
        while process.poll() is None and time.monotonic() < until:
            try:
                httpx.get(f"https://localhost:{reader.ports['8443']}/livez", verify=False).raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.05)
        yield
    except BaseException:
        print((reader.folder / "nginx.log").read_text())
        raise
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(10)


def test_behind_nginx(reader: Reader) -> None:
    making, certificate, *_, asking = blocks()["sh"]
    reader.sh(making)
    reader.sh(certificate)
    reader.serve(blocks()["serve"][1])
    assert (reader.folder / "tarry.sock").stat().st_mode & 0o777 == 0o660
    url = f"https://localhost:{reader.ports['8443']}"
    (page,) = blocks()["nginx"]
    with nginx(reader, page):
        key = (reader.folder / "ops.key").read_text().strip()
        with httpx.Client(verify=False, base_url=url, headers={"Authorization": f"Bearer {key}"}) as client:
            published = client.post(
                "/v1/topics/orders/messages", json={"body": "x" * 200_000}, headers={"Host": "tarry.example"}
            )
            assert published.status_code == 201, published.text
            assert client.get("/v1/topics", headers={"Host": "evil.example"}).status_code == 421
            claim = {"client": "c", "wait": "1s"}
            began = time.monotonic()
            assert client.post("/v1/topics/empty/groups/g/claim", json=claim).json()["messages"] == []
            assert time.monotonic() - began > 0.9
        assert httpx.get(f"{url}/v1/topics", verify=False).status_code == 401
        assert '"topic":"orders"' in reader.sh(asking)
    assert reader.server.stop() == 0


def test_every_block_is_tried() -> None:
    found = blocks()
    assert {kind: len(texts) for kind, texts in found.items()} == {"sh": 7, "serve": 2, "python": 1, "nginx": 1}
