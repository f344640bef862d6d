"""`top`: one look for scripts, and a live view on a real terminal, wide and narrow, to its end by Ctrl-C."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import Any

import pytest

from support.command_line import CommandLine
from support.scripted_server import Answer, Request, ScriptedServer, problem
from tarry.service.cli.overview import quantile, read_held_back, read_lateness
from tarry.service.demo.server_process import python_path
from tarry.service.metrics import CONTENT_TYPE, Metrics

NODE = {"node": "one", "duties": True, "alive": True, "timers": 7, "hand_behind": 3, "shards": [0, 1], "version": "1"}


class Server:
    """What `top` asks, answered by a server that has two topics."""

    def __init__(self, script: ScriptedServer) -> None:
        self.metrics = Metrics()
        self.metrics.watch(lambda: 0, lambda: 0, lambda: 0.0, lambda: 0, lambda: 0, lambda: self.held_back)
        self.held_back: dict[str, int] = {}
        self.detail: dict[str, int] = {}
        self.away = False
        self.asked: list[str] = []
        script.respond = self.respond

    def respond(self, request: Request) -> Answer:
        self.asked.append(request.path)
        if self.away:
            return problem(503, detail="the store is away")
        path, _, _ = request.path.partition("?")
        if path == "/metrics":
            return Answer(200, content=self.metrics.text(), headers={"content-type": CONTENT_TYPE})
        if path == "/v1/nodes":
            return Answer(200, {"nodes": [NODE | {"started_at": "2030-01-01T00:00:00.000Z"}]})
        if path == "/v1/topics":
            rates = {"published_rate": 12.34, "delivered_rate": 5.0, "backlog": 9, "pending": 4}
            return Answer(200, {"topics": [{"topic": name} | rates for name in ("orders", "gone")], "cursor": None})
        if path == "/v1/topics/orders":
            groups = [{"group": "a", "backlog": 2}, {"group": "b", "backlog": 7}]
            return Answer(200, {"groups": groups} | self.detail)
        return problem(404)


@pytest.fixture
def server(script: ScriptedServer) -> Server:
    return Server(script)


def test_one_look(server: Server, tarry: CommandLine) -> None:
    server.metrics.lateness("orders", [0.0005] * 98 + [0.3, 7])
    lines = tarry("top", "--once", "--sort", "backlog", "--max", "5").rows
    told = dict(zip(lines[0], lines[1], strict=True))
    assert told["topic"] == "orders"
    assert (told["published/s"], told["backlog"], told["pending"]) == ("12.3", "9", "4")
    assert told["held back"] == "0"
    assert (told["late p50 ms"], told["late p99 ms"], told["largest lag"]) == ("1", "500", "7 b")
    assert len(lines) == 4, "a topic that is gone meanwhile is left out"
    assert dict(zip(lines[2], lines[3], strict=True))["node"] == "one*"
    assert any("sort=backlog" in path and "max=5" in path for path in server.asked)


def test_json_is_one_document(server: Server, tarry: CommandLine) -> None:
    told: dict[str, Any] = tarry("top", "--json").json
    assert set(told) == {"at", "topics", "nodes"}
    assert told["topics"][0]["groups"] == [{"group": "a", "backlog": 2}, {"group": "b", "backlog": 7}]
    assert (told["topics"][0]["late_p99"], told["nodes"][0]["hand_behind"]) == (None, 3)


def test_what_a_release_rate_holds_back(server: Server, tarry: CommandLine) -> None:
    server.held_back = {"orders": 3}
    head, told = tarry("top", "--once").rows[:2]
    assert dict(zip(head, told, strict=True))["held back"] == "3"
    assert tarry("top", "--json").json["topics"][0]["held_back"] == 3


def test_a_topic_that_metrics_do_not_name_tells_it_itself(server: Server, tarry: CommandLine) -> None:
    server.held_back = {"(other)": 7}
    server.detail = {"held_back": 5}
    assert tarry("top", "--json").json["topics"][0]["held_back"] == 5


def test_held_back_at_several_processes_is_added_up() -> None:
    name = "tarry_held_back_messages"
    lines = [f"# TYPE {name} gauge", *(f'{name}{{process="{n}",topic="t"}} {n}.0' for n in (1, 2)), ""]
    assert read_held_back("\n".join(lines)) == {"t": 3}


def test_a_server_that_is_away(server: Server, tarry: CommandLine) -> None:
    server.away = True
    tarry("top", "--once", code=75)


def test_lateness_of_several_processes_is_added_up() -> None:
    name = "tarry_delivery_lateness_seconds"
    lines = [f"# TYPE {name} histogram"]
    for process, (fast, every) in {"1": (1, 4), "2": (9, 10)}.items():
        own = f'process="{process}",topic="t"'
        lines += [f'{name}_bucket{{{own},le="0.01"}} {fast}', f'{name}_bucket{{{own},le="+Inf"}} {every}']
    found = read_lateness("\n".join([*lines, ""]))
    assert found == {"t": {0.01: 10.0, float("inf"): 14.0}}
    assert (quantile(found["t"], 0.5), quantile({}, 0.5), quantile({0.01: 0.0, float("inf"): 0.0}, 0.5)) == (
        10,
        None,
        None,
    )


def _hear_ctrl_c() -> None:
    """What a script starts in the background is deaf to it, and so are all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Screen:
    """`tarry top` on a terminal of its own."""

    def __init__(self, columns: int, rows: int) -> None:
        self._end, child = pty.openpty()
        self.resize(columns, rows)
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        command = [sys.executable, "-m", "tarry.service.cli.app", "top", "--every", "1"]
        environment |= python_path() | {"TERM": "xterm", "NO_COLOR": "1"}
        self.process = subprocess.Popen(
            command, stdin=child, stdout=child, stderr=child, env=environment, preexec_fn=_hear_ctrl_c
        )
        os.close(child)
        self.text = ""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, wanted: str) -> str:
        """All that came until this was shown."""
        seen, end = "", time.monotonic() + 60
        while not re.search(wanted, seen):
            assert time.monotonic() < end, self.text
            try:
                seen += os.read(self._end, 65536).decode("utf-8")
            except OSError:  # how a terminal ends whose last program is gone
                break
            self.text += seen
        return seen

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)


@pytest.mark.slow
def test_live_on_a_terminal(server: Server) -> None:
    screen = Screen(120, 30)
    try:
        wide = screen.until(r"started[\s\S]*2030")
        for word in ("orders", "12.3", "largest lag", "7 b", "one*", "late p50 ms"):
            assert word in wide
        screen.resize(40, 12)
        narrow = screen.until(r"\x1b\[H[\s\S]*orders +12.3 *(\x1b|\r)")
        frame = narrow[narrow.rindex("tarry top") :]
        assert "backlog" not in frame, "a column that has no room is left out, and no figure is cut"
        assert all(len(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line)) <= 40 for line in frame.split("\r\n"))
        server.away = True
        assert "orders" in screen.until("store is away"), "what was seen last stays"
        server.away = False
        screen.until(r"tarry top(?:(?!away)[\s\S])*one\*")
        screen.process.send_signal(signal.SIGINT)
        last = screen.until(r"\x1b\[\?1049l")
        assert screen.process.wait(10) == 0
        assert "Traceback" not in screen.text
        assert "\x1b[?25h" in last + screen.until("nothing more"), "the cursor is back"
    finally:
        screen.close()
