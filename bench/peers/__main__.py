"""How does Tarry compare with its peers at the same tasks, each through its own client?

    python -m tarry.bench.peers
    python -m tarry.bench.peers --works a c --peers tarry-sqlite beanstalkd --scale 0.1

    a  durable publishes by 1, 20 and 200 callers, each of which waits for its answer
    b  lateness of messages at a steady 1,000 due a second
    c  50,000 waiting messages are handed out to 8 consumers and acknowledged
    d  200,000 messages are scheduled: time and memory, and the first message after a kill -9 of the whole server
    e  20,000 messages due in one millisecond: when the last is handed out
    f  8 consumers at an empty queue: processor time and queries

Each peer has a private server in a temporary folder, a new one for each work, and is durable: an answered publish has
been synced to the disk. A peer that is not installed is named on stderr and left out. Bodies have 200 bytes. Where a
client has a call for many messages, b to e publish a thousand at a time with it. Prints JSON lines, then the table of
docs/benchmarks.md, with losses as well as wins. A work that fails is reported on stderr and makes the exit code 1.

Run it with `FSYNC_US=1000 LD_PRELOAD=.../slow_fsync.so` to slow the disk of every server
(docs/how-to/run-the-benchmarks.md).
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .. import databases
from ..report import Figures, chosen, say, show, summarize
from .beanstalkd import Beanstalkd
from .bullmq import BullMQ
from .ours import TarryOnMySQL, TarryOnSQLite
from .peer import Peer
from .pgqueuer import PgQueuer
from .table import markdown
from .works import WORKS, Sizes

PEERS: dict[str, Callable[[Path], Peer]] = {
    "tarry-sqlite": TarryOnSQLite,
    "tarry-mysql": TarryOnMySQL,
    "beanstalkd": Beanstalkd,
    "bullmq": BullMQ,
    "pgqueuer": PgQueuer,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tarry.bench.peers",
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS), help="which works")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="which peers")
    parser.add_argument("--callers", type=databases.count, nargs="+", default=[1, 20, 200], help="that publish")
    parser.add_argument("--scale", type=databases.seconds, default=1.0, help="of all numbers and times")
    parser.add_argument("--runs", type=databases.count, default=1, help="of which the figures are medians")
    arguments = parser.parse_args()
    peers = _installed(arguments.peers)
    if not peers:
        raise SystemExit("none of these is installed")
    versions: dict[str, str] = {}
    found: dict[str, dict[str, list[Figures]]] = {work: {name: [] for name in peers} for work in arguments.works}
    for run in range(1, arguments.runs + 1):
        for work in arguments.works:
            for name in list(peers) if run % 2 else reversed(list(peers)):
                say(f"run {run} of {arguments.runs}, work {work}: {name}")
                figures = _measured(name, work, sizes(arguments.scale, arguments.callers), versions)
                promise = {"durability": peers[name].durability, "lacks": peers[name].lacks}
                show({"bench": "peers", "peer": name, "work": work, "run": run, **figures, **promise})
                if "error" not in figures:
                    found[work][name].append(figures)
    fsync_us = os.environ.get("FSYNC_US")
    summarize("peers", **chosen(arguments, "works", "scale", "runs"), fsync_us=fsync_us, versions=versions)
    print(markdown(found, peers, arguments.callers, versions), flush=True)
    if any(len(runs) < arguments.runs for by_peer in found.values() for runs in by_peer.values()):
        raise SystemExit(1)


def sizes(scale: float, callers: list[int]) -> Sizes:
    """The sizes of the works at a scale."""
    return Sizes(
        callers=tuple(callers),
        seconds=max(0.3, min(3, 6 * scale)),
        rate=max(10, round(1000 * min(1, 5 * scale))),
        late_seconds=max(1, 10 * scale),
        waiting=round(50_000 * scale) + 2,
        pending=round(200_000 * scale) + 2,
        burst=round(20_000 * scale) + 2,
        idle_seconds=max(1, min(10, 20 * scale)),
    )


def _installed(names: list[str]) -> dict[str, Peer]:
    found: dict[str, Peer] = {}
    for name in names:
        # Not started, only asked about itself.
        peer = PEERS[name](Path())
        if missing := peer.missing():
            print(f"{name} is left out; it wants: {missing}", file=sys.stderr)
        else:
            found[name] = peer
    return found


def _measured(name: str, work: str, how_much: Sizes, versions: dict[str, str]) -> Figures:
    """Measures one work on a new server; returns the figures, or the error."""
    with tempfile.TemporaryDirectory(prefix="tarry-bench-", ignore_cleanup_errors=True) as folder:
        peer = PEERS[name](Path(folder))
        try:
            peer.start()
            versions.setdefault(name, peer.version())
            return WORKS[work](peer, how_much)
        except Exception as error:
            print(f"{name}, work {work}: {error!r}", file=sys.stderr)
            return {"error": repr(error)}
        finally:
            peer.stop()


if __name__ == "__main__":
    main()
