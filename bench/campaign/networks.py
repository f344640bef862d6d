"""Places for servers: of root's on a network of their own, whose lines can be cut, else on loopback.

Each is a network namespace, ip-netns(8), with a line to one or more switches: the one by which a database is reached,
the one of its members among each other, the one by which Tarry is reached. Beside each is another switch, and a line
that is cut leads to that one: so what is cut off is alone, or together with what else is cut off.
"""

import os
import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from attrs import define, field, frozen

Line = Literal["callers", "clients", "others"]
"""From Tarry's callers, from clients of the database, from other members."""
_LINES: Sequence[Line] = ("callers", "clients", "others")
_NETS = (210, 211, 212)
_NEAR, _FAR = "n", "f"
"""Of two switches the one where the campaign has an address, and the one that lines are cut off to."""
_LOOPBACK = "127.0.0.1"


@frozen
class Place:
    addresses: Mapping[Line, str] = field(factory=dict[Line, str])
    name: str = ""
    """Of its namespace, behind the network's; empty on loopback, where no line can be cut."""

    @property
    def within(self) -> tuple[str, ...]:
        """What makes of a command one that runs there."""
        return ("ip", "netns", "exec", self.name) if self.name else ()

    def cut(self, *lines: Line) -> None:
        """What is on its way is lost, and nobody is told."""
        for line in lines:
            self._lead(line, _FAR)

    def join(self) -> None:
        """All lines are there again."""
        for line in self.addresses:
            self._lead(line, _NEAR)

    def _lead(self, line: Line, side: str) -> None:
        number, network = _LINES.index(line), self.name.partition("-")[0]
        _ip("link", "set", f"{self.name}-{number}", "master", f"{network}-{side}{number}")


@define
class Network:
    """Where the servers of one campaign run."""

    _name: str = ""
    """Of all that belongs to it; empty on loopback."""
    _net: int = 0
    """The third number of its addresses."""
    _places: list[str] = field(factory=list[str], init=False)

    def place(self, *lines: Line) -> Place:
        """A new one with these lines."""
        if not self._name:
            return Place(dict.fromkeys(lines, _LOOPBACK))
        name, host = f"{self._name}-{len(self._places)}", 2 + len(self._places)
        place = Place({line: f"10.{_NETS[_LINES.index(line)]}.{self._net}.{host}" for line in lines}, name)
        self._places.append(name)
        _ip("netns", "add", name)
        _ip("-n", name, "link", "set", "lo", "up")
        for line, address in place.addresses.items():
            outer, inner = f"{name}-{_LINES.index(line)}", f"eth{_LINES.index(line)}"
            _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
            _ip("link", "set", outer, "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", inner)
            _ip("-n", name, "link", "set", inner, "up")
        place.join()
        return place

    def begin(self) -> None:
        """Makes its switches."""
        for number, side in self._switches:
            switch = f"{self._name}-{side}{number}"
            _ip("link", "add", switch, "type", "bridge")
            if side == _NEAR:
                _ip("addr", "add", f"10.{_NETS[number]}.{self._net}.1/24", "dev", switch)
            _ip("link", "set", switch, "up")

    def end(self) -> None:
        """Nothing is left of it."""
        for name in self._places:
            _ip("netns", "del", name, check=False)
        for number, side in self._switches:
            _ip("link", "del", f"{self._name}-{side}{number}", check=False)

    @property
    def _switches(self) -> list[tuple[int, str]]:
        return [(number, side) for number in range(len(_LINES)) for side in (_NEAR, _FAR)]


def can_be_made() -> bool:
    """Whether this user may make networks: root, with iproute2."""
    return os.getuid() == 0 and shutil.which("ip") is not None


@contextmanager
def network() -> Generator[Network, None, None]:
    """One of its own, gone at the end, where it can be made; else loopback."""
    if not can_be_made():
        yield Network()
        return
    own = os.getpid() % 10_000
    made = Network(f"tarry{own}", own % 250)
    try:
        made.begin()
        yield made
    finally:
        made.end()


def _ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=not check)
