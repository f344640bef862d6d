"""Three private MySQLs as one replication group of a single primary, and what is done to its members."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random

import pymysql
import trio
from attrs import define, field, frozen

from ...service.demo.server_process import free_port
from .. import databases
from ..programs import Program
from .database import Server
from .faults import PATIENCE, moment
from .networks import Line, Network, Place, network
from .node import Node
from .stage import Stage

_MEMBERS = 3
_OPTIONS = (
    "--innodb-buffer-pool-size=128M",
    "--innodb-redo-log-capacity=128M",
    "--log-bin=log",
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--plugin-load-add=group_replication.so",
    "--plugin-load-add=mysql_clone.so",
    "--loose-group-replication-group-name=7a277a27-0000-4000-8000-000000000001",
    "--loose-group-replication-start-on-boot=OFF",
    "--loose-group-replication-recovery-get-public-key=ON",
    "--loose-group-replication-ip-allowlist=127.0.0.1/32,10.0.0.0/8",
    "--bind-address=*",
)
_ELECTED = 60.0
"""Seconds in which a group has another primary: it takes about 20 to be sure that one is gone."""
SHORTEST, LONGEST = 6.0, 20.0
"""Seconds that a majority is gone, or a primary stands still. A member is noticed to be silent after five."""
_JOINED = 120.0
_TOLD = 15.0
"""Seconds in which a server of Tarry says that it cannot write, or that it can again."""
_READY, _NOT_READY = 200, 503


@define
class Member:
    dsn: str
    program: Program
    command: tuple[str, ...]
    place: Place = field(factory=Place, kw_only=True)

    def ask(self, *statements: str) -> list[tuple[object, ...]]:
        """In a session of its own; the rows of the last."""
        with databases.log_in(self.dsn, database=None) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    @property
    def takes_writes(self) -> bool:
        """As the group's primary, and not because it is in none."""
        with suppress(pymysql.err.MySQLError):
            return self.ask(
                "SELECT @@read_only, MEMBER_ROLE FROM performance_schema.replication_group_members"
                " WHERE MEMBER_ID = @@server_uuid"
            ) == [(0, "PRIMARY")]
        return False

    @property
    def commits(self) -> bool:
        """As the group's primary. A group that is not sure yet whether a member is gone keeps a COMMIT waiting."""
        with suppress(pymysql.err.MySQLError):
            if self.takes_writes:
                self.ask(
                    "CREATE DATABASE IF NOT EXISTS probe",
                    "CREATE TABLE IF NOT EXISTS probe.one (id INT PRIMARY KEY)",
                    "REPLACE INTO probe.one VALUES (1)",
                )
                return True
        return False

    @property
    def sees(self) -> list[str]:
        """The states of all members, as this one has them, by their ports; of none where it does not answer."""
        with suppress(pymysql.err.MySQLError):
            rows = self.ask(
                "SELECT CONCAT(MEMBER_PORT, ' ', MEMBER_STATE) FROM performance_schema.replication_group_members"
            )
            return [str(row[0]) for row in rows]
        return []

    @property
    def sees_all(self) -> bool:
        return [state.partition(" ")[2] for state in self.sees] == ["ONLINE"] * _MEMBERS


@define
class Group:
    members: list[Member]
    chosen: trio.Event = field(factory=trio.Event)
    """Set when it commits again."""

    @property
    def primary(self) -> Member:
        return next(one for one in self.members if one.takes_writes)

    def others(self, than: Member) -> list[Member]:
        return [one for one in self.members if one is not than]

    def settle(self) -> None:
        """Waits until all are in it."""
        _wait(lambda: all(one.sees_all for one in self.members), _JOINED, "the members did not come together")

    def elected(self, among: Collection[Member]) -> None:
        """Waits until one of these is the primary, and commits."""
        _wait(lambda: any(one.commits for one in among), _ELECTED, "no other primary was elected")
        trio.from_thread.run_sync(self.chosen.set)


Fault = Callable[[Group, Random], Callable[[], None]]
"""Returns when the group commits again; what that returns makes it whole."""


@define
class Replicated(Server):
    """Its DSN has all members."""

    group: Group = field(kw_only=True)


def _wait(happened: Callable[[], bool], seconds: float, what: str) -> None:
    """Raises `TimeoutError`, which tells what was waited for."""
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        rest(0.1)


def rest(seconds: float) -> None:
    """Sleeps; in a thread of Trio's no longer than its task is wanted."""
    try:
        trio.from_thread.run(trio.sleep, seconds)
    except RuntimeError:  # it is none of Trio's
        time.sleep(seconds)


def freeze(members: Collection[Member], seconds: float) -> None:
    """They stand still for so long."""
    send(members, signal.SIGSTOP)
    try:
        rest(seconds)
    finally:
        send(members, signal.SIGCONT)


def send(members: Iterable[Member], what: signal.Signals) -> None:
    for member in members:
        os.kill(member.program.pid, what)


@contextmanager
def ended(members: Iterable[Member]) -> Generator[Path, None, None]:
    """A folder for their files; in the end no member is left, and none of these."""
    with tempfile.TemporaryDirectory(prefix="tarry-campaign-", ignore_cleanup_errors=True) as folder:
        try:
            yield Path(folder)
        finally:
            for member in members:
                member.program.kill()


def together(members: Iterable[Member], hosts: Iterable[str], network: Network) -> Replicated:
    """Waits until all are in their group."""
    group = Group(list(members))
    group.settle()
    dsn = f"mysql://tarry:tarry@{','.join(hosts)}/tarry?ssl_mode=DISABLED"
    return Replicated(dsn, network=network, group=group)


@frozen
class _Home:
    """Where a member listens."""

    place: Place
    port: int = field(factory=free_port)
    _between: int = field(factory=free_port)

    @property
    def host(self) -> str:
        return self.place.addresses["clients"]

    @property
    def between(self) -> str:
        """Address and port for the others."""
        return f"{self.place.addresses['others']}:{self._between}"


@contextmanager
def replicated() -> Generator[Replicated, None, None]:
    """A group of the row's own, gone at the end."""
    members: list[Member] = []
    with network() as around, ended(members) as made:
        homes = [_Home(around.place("clients", "others")) for _ in range(_MEMBERS)]
        for number in range(_MEMBERS):
            members.append(_member(made / str(number), number, homes))
            members[-1].program.start(members[-1].command)
        for number, member in enumerate(members):
            member.ask(
                "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'tarry', SOURCE_PASSWORD = 'tarry'"
                " FOR CHANNEL 'group_replication_recovery'",
                f"SET GLOBAL group_replication_bootstrap_group = {int(not number)}",
                "START GROUP_REPLICATION",
                "SET GLOBAL group_replication_bootstrap_group = 0",
            )
        yield together(members, [f"{home.host}:{home.port}" for home in homes], around)


def _member(folder: Path, number: int, homes: Sequence[_Home]) -> Member:
    folder.mkdir()
    home = homes[number]
    dsn = f"mysql://tarry:tarry@{home.host}:{home.port}/tarry"
    command = (
        *home.place.within,
        *databases.server_command("mysql", folder, home.port),
        *_OPTIONS,
        f"--server-id={number + 1}",
        f"--report-host={home.host}",
        f"--report-port={home.port}",
        f"--loose-group-replication-local-address={home.between}",
        f"--loose-group-replication-group-seeds={','.join(one.between for one in homes)}",
    )
    return Member(dsn, Program(folder / "log", partial(databases.answers, dsn)), command, place=home.place)


def _kill(group: Group, member: Member, random: Random) -> Callable[[], None]:
    """kill -9, and a start. Until it has joined it takes writes, which the group would never get."""
    member.program.kill()
    group.elected(group.others(member))

    def heal() -> None:
        member.program.start(member.command)
        rest(random.uniform(0, 3))
        member.ask("START GROUP_REPLICATION")

    return heal


def _switch(group: Group, random: Random) -> Callable[[], None]:
    """As before an upgrade of its machine."""
    to = random.choice(group.others(group.primary))
    to.ask("SELECT group_replication_set_as_primary(@@server_uuid)")
    group.elected([to])
    return nothing


def lose_majority(group: Group, random: Random) -> Callable[[], None]:
    """Both others stand still, and the primary goes on taking statements."""
    freeze(group.others(group.primary), random.uniform(SHORTEST, LONGEST))
    group.settle()
    return nothing


def _freeze_primary(group: Group, random: Random) -> Callable[[], None]:
    """It stands still until another is elected, and goes on as if it were the primary."""
    before = group.primary
    send([before], signal.SIGSTOP)
    try:
        group.elected(group.others(before))
        rest(random.uniform(0, 3))
    finally:
        send([before], signal.SIGCONT)
    return nothing


def _cut_off(group: Group, random: Random, lines: Sequence[Line]) -> Callable[[], None]:
    """Until another primary is elected, and a little longer."""
    before = group.primary
    before.place.cut(*lines)
    try:
        group.elected(group.others(before))
        rest(random.uniform(0, 3))
    finally:
        before.place.join()
    return nothing


def _part(group: Group, random: Random, nodes: Sequence[Node]) -> Callable[[], None]:
    """The primary and a server of Tarry on one side, until another is elected and the server says that it cannot write,
    and a little longer."""
    before, alone = group.primary, random.choice(nodes)
    before.place.cut("clients", "others")
    alone.place.cut("clients")
    try:
        group.elected(group.others(before))
        _wait(lambda: alone.readiness == _NOT_READY, _TOLD, f"{alone.name} has no majority, and does not say so")
        rest(random.uniform(0, 3))
    finally:
        before.place.join()
        alone.place.join()
    return nothing


def nothing() -> None:
    """It is whole."""


FAULTS: Mapping[str, Fault] = {
    "primary killed": lambda group, random: _kill(group, group.primary, random),
    "secondary killed": lambda group, random: _kill(group, random.choice(group.others(group.primary)), random),
    "primary switched": _switch,
    "majority lost": lose_majority,
    "primary frozen": _freeze_primary,
}
_WITH_LINES: Mapping[str, Fault] = {
    "primary cut off": partial(_cut_off, lines=("clients", "others")),
    "primary cut off from the others": partial(_cut_off, lines=("others",)),
}
"""Where the members are on a network of their own. In the second servers of Tarry still reach the old primary."""


async def faults(stage: Stage, some: Mapping[str, Fault] = FAULTS) -> None:
    """One after the other, each until the group is whole again and all servers of Tarry are ready."""
    random, replicated = stage.crew.random("group"), stage.database
    assert isinstance(replicated, Replicated)
    group = replicated.group
    if group.members[0].place.within:
        some = {**some, **_with_lines(stage.nodes)}
    while stage.wanted:
        await moment(stage, random)
        what = random.choice(list(some))
        if not stage.begin(what):
            break
        heal = await measured(stage, group, partial(some[what], group, random))
        await trio.to_thread.run_sync(heal)
        try:
            await trio.to_thread.run_sync(group.settle)
        except TimeoutError as late:  # what was done so far is judged all the same
            stage.stuck(f"{late}: {[one.sees for one in group.members]}")
            break
        await _ready(stage)
        stage.end(what, back_ms=round(stage.ups[-1]))
        await stage.journal.reached("ack:ok", random.randrange(20, 200), PATIENCE)


def _with_lines(nodes: Sequence[Node]) -> Mapping[str, Fault]:
    """Faults of a network: one server of Tarry is left with the majority."""
    parted = {"primary and a server cut off": partial(_part, nodes=nodes)} if len(nodes) > 1 else {}
    return {**_WITH_LINES, **parted}


async def measured(stage: Stage, group: Group, fault: Callable[[], Callable[[], None]]) -> Callable[[], None]:
    """Does it, and waits until the service is back: that is measured from when the group commits again, and the fault
    may still go on. Returns what makes the group whole."""
    group.chosen = trio.Event()
    heal = nothing
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_back, stage, group.chosen)
        try:
            heal = await trio.to_thread.run_sync(fault)
        except TimeoutError as late:
            stage.stuck(str(late))
        group.chosen.set()
    return heal


async def _back(stage: Stage, chosen: trio.Event) -> None:
    await chosen.wait()
    await stage.back(time.monotonic())


async def _ready(stage: Stage) -> None:
    """Waits until all servers of Tarry are, by themselves."""
    for node in stage.nodes:
        try:
            await trio.to_thread.run_sync(_wait, partial(_is_ready, node), _TOLD, "it was not ready again in time")
        except TimeoutError as late:
            stage.stuck(str(late), node.name)


def _is_ready(node: Node) -> bool:
    return node.readiness == _READY
