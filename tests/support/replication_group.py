"""Starts three MySQLs as a replication group with a single primary, for tests that stop its members.

`TARRY_TEST_MYSQL_GROUP` names the command that starts one on this machine: called with a folder and a port it prints
the three process ids, and the servers listen at that port and the two above it. Root has no password.
"""

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress

import attrs

from support.servers import NoServerError, free_port, memory, run_sql
from support.waiting import wait_until

GRANTS = (
    "CREATE USER tarry@'%' IDENTIFIED BY 'tarry'",
    "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER ON tarry.* TO tarry@'%'",
)
_PORTS = (1, 2, 10, 11, 12)
"""Offsets of the ports of the other members, and of those for the group's own communication."""
_TOGETHER = 60
"""Seconds for the members to find each other again."""


@attrs.define
class Group:
    """The group; the user `tarry` has rights to its own database only, until it may read the list of members."""

    ports: list[int]
    pids: list[int]

    @property
    def dsn(self) -> str:
        """The DSN of all members."""
        return self.dsn_of(0, 1, 2)

    def dsn_of(self, *members: int) -> str:
        """The DSN of these members, in this order."""
        return f"mysql://tarry:tarry@{','.join(f'127.0.0.1:{self.ports[member]}' for member in members)}/tarry"

    def ask(self, member: int, *statements: str) -> list[tuple[object, ...]]:
        return run_sql(f"mysql://root@127.0.0.1:{self.ports[member]}/tarry", *statements)

    def states(self, member: int) -> list[str]:
        """The states of all members, as this one sees them."""
        rows = self.ask(member, "SELECT MEMBER_STATE FROM performance_schema.replication_group_members")
        return [str(state) for (state,) in rows]

    @contextmanager
    def frozen(self, members: Collection[int]) -> Generator[None, None, None]:
        """Freezes the servers of these members within the block, as if their machines stood still."""
        self._signal(members, signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(members, signal.SIGCONT)

    def settle(self) -> None:
        """Waits until all members are in the group again."""
        wait_until(lambda: all(self.states(one) == ["ONLINE"] * 3 for one in range(3)), _TOGETHER)

    def _signal(self, members: Iterable[int], what: signal.Signals) -> None:
        for member in members:
            os.kill(self.pids[member], what)

    def stop(self) -> None:
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)


@contextmanager
def replication_group() -> Iterator[Group]:
    """Starts a group. Raises `NoServerError`."""
    command = os.environ.get("TARRY_TEST_MYSQL_GROUP")
    if not command:
        raise NoServerError(
            "no MySQLs as a replication group: TARRY_TEST_MYSQL_GROUP may name a command that starts them"
        )
    with tempfile.TemporaryDirectory(dir=memory(), ignore_cleanup_errors=True) as folder:
        port = free_port(*_PORTS)
        started = subprocess.run(  # a command from the environment of the person who runs the tests
            [*shlex.split(command), f"{folder}/group", str(port)],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert started.returncode == 0, started.stdout + started.stderr
        group = Group([port, port + 1, port + 2], [int(line) for line in started.stdout.split()[-3:]])
        try:
            group.ask(0, *GRANTS)
            group.settle()
            yield group
        finally:
            group.stop()
