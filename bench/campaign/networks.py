"""Places for the servers of a group: of root's on a network of their own, whose lines can be cut, else on loopback.

Each is a network namespace, ip-netns(8), with two lines: one to clients, and one to the others. So a server can be cut
off from all, or from the others alone.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Literal

from attrs import field, frozen

from ...service.demo.server_process import free_port

Line = Literal["clients", "others"]
_LINES: tuple[Line, ...] = ("clients", "others")
_NETS = (211, 212)
_PORT, _BETWEEN = 3306, 33061


@frozen
class Place:
    """`within` makes of a command one that runs there."""

    address: str
    port: int
    between: str
    """Address and port for the others."""
    within: tuple[str, ...] = ()
    _cut: Callable[[Sequence[Line], bool], None] | None = field(default=None, eq=False)

    def cut(self, *lines: Line) -> None:
        """What is on its way is lost, and nobody is told."""
        assert self._cut is not None
        self._cut(lines, True)

    def join(self) -> None:
        """All lines are there again."""
        assert self._cut is not None
        self._cut(_LINES, False)


@contextmanager
def places(many: int) -> Generator[list[Place], None, None]:
    """On a network that is gone at the end, where it can be made."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        yield [Place("127.0.0.1", free_port(), f"127.0.0.1:{free_port()}") for _ in range(many)]
        return
    own = os.getpid() % 10_000
    switches = [f"tarry{own}-{line[0]}" for line in _LINES]
    names = [f"tarry{own}-{number}" for number in range(many)]
    try:
        for switch, net in zip(switches, _NETS, strict=True):
            _ip("link", "add", switch, "type", "bridge")
            _ip("addr", "add", f"10.{net}.{own % 250}.1/24", "dev", switch)
            _ip("link", "set", switch, "up")
        yield [_place(name, f"{own % 250}.{2 + number}", switches) for number, name in enumerate(names)]
    finally:
        for name in names:
            _ip("netns", "del", name, check=False)
        for switch in switches:
            _ip("link", "del", switch, check=False)


def _place(name: str, host: str, switches: Sequence[str]) -> Place:
    _ip("netns", "add", name)
    _ip("-n", name, "link", "set", "lo", "up")
    for number, (switch, net) in enumerate(zip(switches, _NETS, strict=True)):
        _ip("link", "add", f"{name}{number}", "type", "veth", "peer", "name", f"eth{number}", "netns", name)
        _ip("link", "set", f"{name}{number}", "master", switch, "up")
        _ip("-n", name, "addr", "add", f"10.{net}.{host}/24", "dev", f"eth{number}")
        _ip("-n", name, "link", "set", f"eth{number}", "up")

    def cut(lines: Sequence[Line], down: bool) -> None:
        for line in lines:
            _ip("link", "set", f"{name}{_LINES.index(line)}", "down" if down else "up")

    clients, others = (f"10.{net}.{host}" for net in _NETS)
    return Place(clients, _PORT, f"{others}:{_BETWEEN}", ("ip", "netns", "exec", name), cut)


def _ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=not check)
