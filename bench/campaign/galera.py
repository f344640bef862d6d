"""Three private MariaDBs as one Galera, and what is done to its nodes.

Nobody tells Tarry which of them to write to: all take writes, and all are in the DSN.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random

import pymysql
from attrs import define

from ...service.demo.server_process import free_port
from .. import databases
from ..programs import Program
from .group import LONGEST, SHORTEST, Fault, Group, Member, Replicated, ended, lose_majority, rest, send, together
from .networks import Network

_NODES = 3
LIBRARY = Path("/usr/lib/galera/libgalera_smm.so")
_OPTIONS = (
    "--innodb-buffer-pool-size=128M",
    "--innodb-log-file-size=64M",
    "--binlog-format=ROW",
    "--innodb-autoinc-lock-mode=2",
    "--wsrep-on=ON",
    f"--wsrep-provider={LIBRARY}",
    "--wsrep-cluster-name=tarry",
    "--wsrep-sst-method=increments",
)
_SST = """\
#!/bin/sh
# What a joiner and its donor call: all begin with the same files, and so increments are enough.
while [ $# -gt 0 ]; do
    case $1 in
        --role) role=$2 ;;
        --address) address=${2%%/*} ;;
        --gtid) gtid=$2 ;;
        --bypass) increments=yes ;;
    esac
    shift
done
meeting=$(dirname "$0")/$(echo "$address" | tr : _)
if [ "$role" = joiner ]; then
    rm -f "$meeting"
    mkfifo "$meeting"
    echo "ready $address"
    cat "$meeting"
else
    [ "$increments" ] || exit 1
    echo "$gtid" >"$meeting"
    echo "done $gtid"
fi
"""
_RECOVERED = re.compile(r"WSREP: Recovered position:? (\S+)")
_FIRST = "--wsrep-new-cluster"
_ISOLATE = "SET GLOBAL wsrep_provider_options = 'gmcast.isolate={}'"
_WHOLE = (
    "SELECT COUNT(*) FROM information_schema.global_status WHERE (variable_name, variable_value) IN"
    f" (('wsrep_cluster_size', '{_NODES}'), ('wsrep_local_state_comment', 'Synced'))"
)


@define
class Node(Member):
    folder: Path

    @property
    def takes_writes(self) -> bool:
        """Whether Tarry is at work here: this session is not the only one."""
        with suppress(pymysql.err.MySQLError):
            return self.ask("SELECT 1 FROM information_schema.processlist WHERE db = 'tarry' LIMIT 1") == [(1,)]
        return False

    @property
    def sees_all(self) -> bool:
        with suppress(pymysql.err.MySQLError):
            return self.ask(_WHOLE) == [(2,)]
        return False

    def start(self) -> None:
        """After a kill, from where it was."""
        log = self.folder / "recovery.err"
        subprocess.run([*self.command, "--wsrep-recover", f"--log-error={log}"], check=False)
        position = _RECOVERED.findall(log.read_text())[-1]
        log.unlink()
        self.program.start((*self.command, f"--wsrep-start-position={position}"))


@contextmanager
def replicated(*options: str) -> Generator[Replicated, None, None]:
    """A Galera of the row's own, gone at the end. `options` are some of its provider's."""
    if not LIBRARY.exists():
        raise SystemExit(f"no {LIBRARY} (Debian: apt-get install galera-4): leave out the row galera")
    ports = [free_port() for _ in range(4 * _NODES)]
    own, between = ports[:_NODES], ports[_NODES : 2 * _NODES]
    nodes: list[Node] = []
    with ended(nodes) as made:
        script = made / "wsrep_sst_increments"
        script.write_text(_SST)
        script.chmod(0o755)
        folders = [made / str(number) for number in range(_NODES)]
        folders[0].mkdir()
        common = databases.server_command("mariadb", folders[0], own[0])
        for number, (folder, port) in enumerate(zip(folders, own, strict=True)):
            dsn = f"mysql://tarry:tarry@127.0.0.1:{port}/tarry"
            command = (
                *(one.replace(str(folders[0]), str(folder)) for one in common),
                *_OPTIONS,
                f"--port={port}",
                f"--wsrep-cluster-address=gcomm://{','.join(f'127.0.0.1:{one}' for one in between)}",
                f"--wsrep-node-address=127.0.0.1:{between[number]}",
                f"--wsrep-sst-receive-address=127.0.0.1:{ports[2 * _NODES + number]}",
                f"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{between[number]};"
                f"ist.recv_addr=127.0.0.1:{ports[3 * _NODES + number]};{';'.join(('gcache.size=128M', *options))}",
            )
            path = {"PATH": f"{made}:{os.environ['PATH']}"}
            nodes.append(
                Node(
                    dsn,
                    Program(made / f"log{number}", partial(databases.answers, dsn), environment=path),
                    command,
                    folder,
                )
            )
        first = nodes[0]
        first.program.start((*first.command, _FIRST))
        first.program.stop()  # its files tell now where it was, and the others begin with them
        for folder in folders[1:]:
            shutil.copytree(folders[0], folder, ignore=shutil.ignore_patterns("socket", "galera.cache"))
        for node in nodes:
            node.program.start((*node.command, *([_FIRST] if node is first else [])))
        yield together(nodes, [f"127.0.0.1:{port}" for port in own], Network())


def _kill(member: Member) -> Callable[[], None]:
    """kill -9, and a start from where it was."""
    assert isinstance(member, Node)
    member.program.kill()
    return member.start


def _freeze_writer(group: Group, random: Random) -> Callable[[], None]:
    before = group.primary
    send([before], signal.SIGSTOP)

    def heal() -> None:
        rest(random.uniform(0, LONGEST - SHORTEST))
        send([before], signal.SIGCONT)

    return heal


def _cut_off_writer(group: Group, random: Random) -> Callable[[], None]:
    """It hears of no other node and none of it, and goes on answering whoever asks."""
    before = group.primary
    before.ask(_ISOLATE.format(1))

    def heal() -> None:
        rest(random.uniform(0, LONGEST - SHORTEST))
        before.ask(_ISOLATE.format(0))

    return heal


FAULTS: Mapping[str, Fault] = {
    "writer killed": lambda group, _: _kill(group.primary),
    "another killed": lambda group, random: _kill(random.choice(group.others(group.primary))),
    "writer frozen": _freeze_writer,
    "writer cut off": _cut_off_writer,
    "majority lost": lose_majority,
}
