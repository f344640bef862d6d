"""From a container to two servers with keys, by the commands of docs/how-to/deploy.md, word for word.

What is another here: `docker` is podman with a place of its own, and gives each container a name in a network of
theirs; the base image is made from Debian's packages, Python 3.11 among them, for no registry is asked; the database is
a MariaDB in a container beside; and each server has a port of its own outside, since tests share a machine. The
commands of compose and of Kubernetes are not run.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import httpx
import pytest

from support.podman import BASE, NoPodmanError, Podman, podman
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.service.demo.server_process import free_port

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/deploy.md").read_text("utf-8")
DATABASE = f"""\
FROM {BASE}
RUN apt-get update -q && apt-get install -qy --no-install-recommends mariadb-server-core mariadb-client-core
RUN mkdir /data && mariadb-install-db --datadir=/data --user=root --skip-test-db >/dev/null
COPY init.sql /
CMD ["mariadbd", "--user=root", "--datadir=/data", "--socket=/run/m", "--init-file=/init.sql", "--skip-name-resolve"]
"""
# A statement a line: MariaDB reads an init file so.
INIT = """\
CREATE DATABASE tarry;
CREATE USER tarry@'%' IDENTIFIED BY 'secret';
GRANT ALL ON tarry.* TO tarry@'%';
"""
# In the network of the others, under a name of its own where it has one.
DOCKER = """\
#!/bin/sh
set -eu
verb=$1
shift
case $verb in
build) set -- --format docker --build-arg BASE={base} "$@" ;;
run) set -- --network tarry ${{NAME:+--name "$NAME" -e TARRY_NODE="$NAME" -e TARRY_HOSTS="$NAME"}} "$@" ;;
esac
exec {podman} "$verb" "$@"
"""


def commands() -> list[str]:
    """Of the page's section on containers: build, migrate, a key, serve."""
    section = PAGE.split("## A container\n")[1].split("\n## ")[0]
    found = re.findall(
        r"^docker .+$", re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[0], re.MULTILINE
    )
    assert [command.split()[1] for command in found] == ["build", "run", "run", "run"]
    return found


@attrs.define
class Machine:
    """A user's, with `docker` on its PATH, in a checkout."""

    podman: Podman
    environment: dict[str, str]

    def sh(self, command: str, **more: str) -> "subprocess.Popen[str]":
        """Begun."""
        return subprocess.Popen(
            ["sh", "-euc", f"exec {command}"],
            cwd=ROOT,
            env=self.environment | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def done(self, command: str, code: int = 0, **more: str) -> tuple[str, str]:
        """Gone through; what it said, and what it said beside: podman has words of its own there."""
        process = self.sh(command, **more)
        said, beside = process.communicate(timeout=600)
        assert process.returncode == code, f"{command}: {process.returncode}\n{said}\n{beside}"
        return said, beside


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    try:
        with podman() as own:
            own.must("network", "create", "tarry")
            docker = tmp_path / "docker"
            docker.write_text(DOCKER.format(base=BASE, podman=" ".join(own.command)))
            docker.chmod(0o755)
            mine = {name: value for name, value in own.environment.items() if not name.startswith("TARRY_")}
            yield Machine(own, mine | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"})
    except NoPodmanError as missing:
        pytest.skip(str(missing))


def start_database(machine: Machine, tmp_path: Path) -> str:
    """Its DSN, as a container beside it names it."""
    folder = tmp_path / "database"
    folder.mkdir()
    (folder / "Containerfile").write_text(DATABASE)
    (folder / "init.sql").write_text(INIT)
    machine.podman.must("build", "-t", "database", str(folder))
    machine.podman.must("run", "--detach", "--network", "tarry", "--name", "database", "database")
    ask = ("mariadb", "--protocol=tcp", "--user=tarry", "--password=secret", "--execute=SELECT 1", "tarry")
    wait_until(lambda: machine.podman.run("exec", "database", *ask).returncode == 0, 60)
    return "mysql://tarry:secret@database/tarry?ssl_mode=DISABLED"


@contextmanager
def serving(machine: Machine, command: str, name: str) -> "Generator[tuple[str, subprocess.Popen[str]], None, None]":
    """A server, from when it is ready: its address here, and its process, which is that of the command."""
    port = free_port()
    process = machine.sh(command.replace("-p 8277:", f"-p 127.0.0.1:{port}:"), NAME=name)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: process.poll() is not None or answers(f"{url}/readyz", 200), 60)
        assert process.poll() is None, process.communicate()
        yield url, process
    finally:
        process.kill()
        process.communicate()


def answers(url: str, status: int) -> bool:
    try:
        return httpx.get(url).status_code == status
    except httpx.TransportError:
        return False


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_from_a_container_to_two_servers_with_keys(machine: Machine, tmp_path: Path) -> None:
    build, migrate, make_key, serve = commands()
    machine.environment["TARRY_DSN"] = start_database(machine, tmp_path)
    machine.done(build)
    machine.done(migrate)
    refused = machine.done(serve.replace("-p 8277:8277 ", ""), code=1)
    assert "tarry keys create" in "".join(refused), refused
    key = machine.done(make_key)[0].split()[-1]
    with serving(machine, serve, "a") as (one, first), serving(machine, serve, "b") as (other, second):
        assert httpx.get(f"{one}/v1/topics").status_code == httpx.get(f"{other}/v1/topics").status_code == 401
        with Tarry(one, key=key) as publisher, Tarry(other, key=key) as consumer:
            for receipt in (publisher.publish("orders", {"order": 7}), publisher.publish("orders", 8, delay="300ms")):
                claim = consumer.claim("orders", "billing", wait="20s", start="earliest")
                assert claim is not None
                assert [message.id for message in claim.messages] == [receipt.id]
                assert consumer.ack(claim) == 1
            wait_until(lambda: {node["node"] for node in publisher.nodes()} == {"a", "b"})
            told = {node["node"]: node["url"] for node in publisher.nodes()}
        # What a server tells of itself is where others reach it: another container, here.
        for url in told.values():
            listed, _ = machine.done(
                "docker run --rm -e TARRY_URL -e TARRY_KEY tarry nodes --json", TARRY_URL=url, TARRY_KEY=key
            )
            assert {json.loads(line)["node"] for line in listed.splitlines()} == {"a", "b"}
        for name, process in (("a", first), ("b", second)):
            machine.podman.must("healthcheck", "run", name)
            began = time.monotonic()
            machine.done(f"docker stop {name}")
            said = "".join(process.communicate(timeout=60))
            assert process.returncode == 0, said
            assert '"event": "stopped"' in said, said
            assert key not in said
            assert time.monotonic() - began < 30, "by itself, and not by SIGKILL"
