"""A server that is paused inside a transaction, with rows locked, holds up the other one for three seconds at most."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import define, field

from support.server import start_server
from support.waiting import wait_until
from tarry.service.demo.server_process import free_port, python_path

SECONDS = 4.0
"""For which others may be held up; a second more than is promised, as machines are slow."""
TOPIC = "/v1/topics/orders"
GROUP = f"{TOPIC}/groups/billing"
LADDER = ",".join(["50ms"] * 16)

POINTS = [
    "message.add_bare:after",  # a publish, with its queue
    "delay.add_bare:after",
    "delay.lock_due:after",  # promotion, with what is due
    "message.promote:after",  # and with the queue
    "cancelled.add:after",
    "claim.add:after",  # a turn of a group, with its cursors
    "delivery.add:after",  # which settles
    "retry.add:after",  # and puts what has failed on the ladder
]


@define
class Paused:
    """A server that pauses itself at a point, and who works at it until it does."""

    url: str
    process: "subprocess.Popen[bytes]"
    done: threading.Event = field(factory=threading.Event)
    """It has been paused."""
    accepted: list[str] = field(factory=list[str])
    settled: list[str] = field(factory=list[str])

    @property
    def is_paused(self) -> bool:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def work(self) -> None:
        """A bit of all that a server does."""
        with suppress(httpx.TransportError), httpx.Client(base_url=self.url, timeout=30) as client:
            while not self.done.is_set():
                for delay in (None, "20ms", "1h"):
                    made = client.post(f"{TOPIC}/messages", json={"body": 1} | ({"delay": delay} if delay else {}))
                    if made.status_code != 201:
                        continue
                    if delay != "1h":
                        self.accepted.append(made.json()["id"])
                    else:
                        client.delete(f"/v1/messages/{made.json()['id']}")
                claim = client.post(f"{GROUP}/claim", json={"client": "ann", "max": 4, "wait": "50ms", "lease": "2s"})
                if claim.status_code == 200 and claim.json()["claim"] is not None:
                    first, *others = [message["id"] for message in claim.json()["messages"]]
                    name = claim.json()["claim"]
                    client.post(f"/v1/claims/{name}/fail", json={"messages": [first], "reason": "not today"})
                    if others and client.post(f"/v1/claims/{name}/ack", json={"messages": others}).status_code == 200:
                        self.settled += others


@contextmanager
def paused(folder: Path, dsn: str, point: str) -> Iterator[Paused]:
    port = free_port()
    command = [sys.executable, "-P", "-m", "tarry.bench.killing", point, "1", "serve"]
    environment = os.environ | python_path() | {"TARRY_TEST_SIGNAL": "SIGSTOP", "TARRY_LADDER": LADDER}
    with (folder / "paused.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--dsn", dsn, "--listen", f"127.0.0.1:{port}", "--node", "a"],
            env=environment,
            stdout=log,
            stderr=log,
        )
    server = Paused(f"http://127.0.0.1:{port}", process)
    try:
        yield server
    except BaseException:
        print(f"The log of the paused server:\n{(folder / 'paused.log').read_text()[-5000:]}")
        raise
    finally:
        server.done.set()
        process.kill()
        process.wait()


def is_ready(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz").status_code == 200
    return False


@define
class Other:
    """Works at the other server, and tries again what is refused."""

    client: httpx.Client
    settled: list[str] = field(factory=list[str])

    def until(self, deadline: float, method: str, path: str, body: dict[str, Any]) -> Any:
        while True:
            answer = self.client.request(method, path, json=body)
            if answer.is_success:
                return json.loads(answer.content or b"null")
            assert answer.status_code == 503, answer.text
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.02)

    def settle(self, id_: str, deadline: float) -> None:
        """Claims and acks until this message is settled."""
        while id_ not in self.settled:
            claim = self.until(deadline, "POST", f"{GROUP}/claim", {"client": "bob", "max": 100, "wait": "50ms"})
            if claim["claim"] is not None:
                self.until(deadline, "POST", f"/v1/claims/{claim['claim']}/ack", {})
                self.settled += [message["id"] for message in claim["messages"]]
            assert time.monotonic() < deadline, f"{id_} does not come"


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.cases(1)
def test_others_go_on(mysql_dsn: str, tmp_path: Path, point: str) -> None:
    environment = {"TARRY_NODE": "b", "TARRY_LADDER": LADDER}
    with start_server(tmp_path, mysql_dsn, environment) as b, httpx.Client(base_url=b.url, timeout=30) as client:
        client.put(TOPIC, json={"queues": 1}).raise_for_status()
        client.put(GROUP, json={"from": "earliest"}).raise_for_status()
        with paused(tmp_path, mysql_dsn, point) as a:
            # It may stop before it is ready: at the start it rehearses whether a message would be taken.
            wait_until(lambda: is_ready(a.url) or a.is_paused)
            worker = threading.Thread(target=a.work)
            worker.start()
            wait_until(lambda: a.is_paused)
            a.done.set()
            deadline, other = time.monotonic() + SECONDS, Other(client)
            soon = other.until(deadline, "POST", f"{TOPIC}/messages", {"body": 2})
            later = other.until(deadline, "POST", f"{TOPIC}/messages", {"body": 3, "delay": "10ms"})
            for made in (soon, later):
                other.settle(made["id"], deadline)
            print(f"went on after {time.monotonic() - deadline + SECONDS:.2f} s")
            a.process.send_signal(signal.SIGCONT)
            worker.join()
            # It wakes, finds that its transaction is gone, and works on.
            at_a = Other(httpx.Client(base_url=a.url, timeout=30))
            with at_a.client:
                last = at_a.until(time.monotonic() + 30, "POST", f"{TOPIC}/messages", {"body": 4})
                at_a.settled += other.settled + a.settled
                for id_ in [*a.accepted, soon["id"], later["id"], last["id"]]:
                    at_a.settle(id_, time.monotonic() + 30)
            a.process.terminate()
            assert a.process.wait(30) == 0
