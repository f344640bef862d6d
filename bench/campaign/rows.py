"""The rows of the campaign: what each does, and what it wants of the machine."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial

from attrs import field, frozen

from . import deaths, faults, galera, group, machines, turns
from .database import Server
from .stage import Stage


@frozen
class Row:
    fault: str
    """What is done, in words for the table."""
    do: Callable[[Stage], Awaitable[None]]
    cut: bool = False
    """Nodes reach the database over a line that can be cut."""
    restarts: bool = False
    """The database is killed."""
    stores: tuple[str, ...] = ("mysql", "mariadb", "sqlite")
    shim: str = ""
    """What of the machine programs are made to believe otherwise, the database first: see `shims`."""
    replicated: Callable[[], AbstractContextManager[Server]] | None = None
    """Makes the database of three servers."""
    redis: bool = False
    """Nodes have a Redis, and the unordered topic draws its offsets there."""
    environment: Mapping[str, str] = field(factory=dict[str, str])
    """Of nodes."""


_SERVERS = ("mysql", "mariadb")

ROWS: Mapping[str, Row] = {
    "none": Row("no fault", faults.nothing),
    "kill": Row("kill -9 of a node", faults.kills),
    "pause": Row("SIGSTOP of a node past its leases, then CONT", faults.pauses),
    "all": Row("kill -9 of all nodes at the same moment", deaths.all_at_once),
    "children": Row(
        "kill -9 of processes of servers that have two each",
        deaths.children,
        stores=_SERVERS,
        environment={"TARRY_PROCESSES": str(deaths.CHILDREN)},
    ),
    "turn": Row(
        "SIGSTOP of a node in the middle of a group's turn, while an operator seeks and redrives, then CONT",
        turns.turns,
        stores=_SERVERS,
        environment={"TARRY_TEST_SIGNAL": "SIGSTOP"},
    ),
    "line": Row("the line of one node to the database cut or silent", faults.lines, cut=True, stores=_SERVERS),
    "cut": Row("connection cut before, during or after COMMIT", faults.cuts, cut=True, stores=_SERVERS),
    "database": Row("kill -9 or stop of the database, and start", faults.databases, restarts=True, stores=_SERVERS),
    "group": Row(
        "a member of a replication group killed, frozen or cut off, also with a server of Tarry; a switch; no majority",
        group.faults,
        stores=("mysql",),
        replicated=group.replicated,
    ),
    "galera": Row(
        "a node of a Galera killed, frozen or cut off from the others, a lost majority",
        partial(group.faults, some=galera.FAULTS),
        stores=("mariadb",),
        replicated=galera.replicated,
    ),
    "clock": Row(
        "steps of the clock, of the database and of nodes, 1 s to 1 h both ways", machines.clocks, shim="clock"
    ),
    "disk": Row("the database's disk is full for seconds", machines.full_disks, shim="disk"),
    "redis": Row("Redis killed, or made to forget", faults.forgetful_redis, redis=True, stores=_SERVERS),
}
