"""What does Tarry lose, send early or send twice when nodes, connections and databases fail?

    python -P -m tarry.bench.campaign --rows kill pause cut database clock disk --nodes 2 3 --count 50 --dsn mysql

Private servers run on loopback under a load of everything a client can ask. Faults are chosen by `--seed` and injected
at the moment when a chosen event happens. Then all messages are claimed until none is left, and the checker, which
knows only the history, judges it. Prints JSON lines and then a table. The histories are kept with `--keep`, and when a
promise was broken; in that case the violations are printed, each with the events of its message, and the exit code is
1.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import trio
from attrs import evolve

from .. import databases
from ..checker.violation import Violation
from ..report import say, show
from .database import private
from .plants import PLANTS
from .play import run
from .rows import ROWS
from .shims import Shim
from .stage import Order, Outcome

_TOLD = 3
"""Violations of each kind that are printed; the file `violations.txt` has all."""
_CELLS: Mapping[str, Callable[[Outcome, Mapping[str, Any]], str]] = {
    "faults": lambda outcome, _: str(outcome.faults),
    "messages": lambda _, figures: f"{figures['messages']:,}",
    "deliveries": lambda _, figures: f"{figures['deliveries']:,}",
    "lost": lambda _, figures: str(figures["lost"]),
    "early": lambda _, figures: str(figures["early"]),
    "again, explained": lambda _, figures: f"{sum(figures['explained'].values()):,}",
    "unexplained": lambda _, figures: str(figures["unexplained"]),
    "violations": lambda _, figures: str(figures["violations"]),
    "latest": lambda _, figures: f"{figures['latest_ms'] / 1000:.1f} s",
    "back in": lambda outcome, _: f"{outcome.up_ms / 1000:.1f} s",
    "seconds": lambda outcome, _: f"{outcome.seconds:.0f}",
}
"""The columns of the table, and what is in them for an outcome and the figures of its report."""
_HEAD = ("row", "store", "nodes", *_CELLS)


def main(arguments: Sequence[str] | None = None) -> int:
    # SIGTERM acts as Ctrl-C, which trio raises only where it is safe, so that all started processes are ended.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    options = _parser().parse_args(arguments)
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    folder = Path(options.keep or tempfile.mkdtemp(prefix="tarry-campaign-")).absolute()
    print(f"seed {seed}; histories and logs in {folder}", file=sys.stderr)
    table: list[Sequence[str]] = [_HEAD, ["---"] * len(_HEAD)]
    wrong = 0
    order = Order(
        nodes=1, count=options.count, seed=seed, seconds=60 * options.minutes, rate=options.rate,
        drain_seconds=options.drain, plant=options.plant or "",
    )  # fmt: skip
    plays = [(store, name, nodes) for store in options.dsn for name in options.rows for nodes in options.nodes]
    interrupted = False
    try:
        for store, name, nodes in plays:
            outcome = _played(name, store, evolve(order, nodes=nodes), folder)
            if outcome is not None:
                table.append(
                    [
                        name,
                        store.partition(":")[0],
                        str(nodes),
                        *(cell(outcome, outcome.report.figures) for cell in _CELLS.values()),
                    ]
                )
                wrong += len(outcome.report.violations)
    except* KeyboardInterrupt:  # from any of the tasks
        interrupted = True
    if not (options.keep or wrong):
        shutil.rmtree(folder)
    if interrupted:
        print("interrupted", file=sys.stderr)
        return 130
    print("\n".join(f"| {' | '.join(row)} |" for row in table), flush=True)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -P -m tarry.bench.campaign",
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    told = "; ".join(f"{name}: {row.fault}" for name, row in ROWS.items())
    parser.add_argument(
        "--rows", nargs="+", choices=ROWS, default=["kill", "pause", "cut", "database", "clock", "disk"], help=told
    )
    parser.add_argument("--nodes", nargs="+", type=databases.count, default=[2], help="servers on one database")
    parser.add_argument("--count", type=databases.count, default=10, help="faults of each row")
    parser.add_argument("--dsn", nargs="+", default=["mariadb"], help="mysql, mariadb or sqlite: private; or a DSN")
    parser.add_argument("--seed", type=int, help="replays the choice of faults; a new one when left out")
    parser.add_argument(
        "--minutes", type=databases.seconds, default=30.0, help="of each row at most, without its drain"
    )
    parser.add_argument("--rate", type=databases.seconds, default=60.0, help="messages a second of each publisher")
    parser.add_argument("--drain", type=databases.seconds, default=120.0, help="seconds until all must have ended")
    parser.add_argument(
        "--keep", help="a folder for histories and logs; when left out, one that is kept where a promise was broken"
    )
    parser.add_argument("--plant", choices=PLANTS, help="a bug for the first node, so that the checker has one to find")
    return parser


def _played(name: str, store: str, order: Order, folder: Path) -> Outcome | None:
    """Runs one row on one store with `order.nodes` nodes; None if the row makes no sense there."""
    row, kind = ROWS[name], store.partition(":")[0]
    several = kind == "sqlite" and order.nodes > 1
    if kind not in row.stores or several or ((row.restarts or row.shim or row.replicated) and "://" in store):
        print(f"{name} with {order.nodes} nodes on {kind} is left out", file=sys.stderr)
        return None
    place = folder / f"{name}-{kind}-{order.nodes}"
    place.mkdir(parents=True, exist_ok=True)
    say(f"{name} on {kind}, {order.nodes} nodes: beginning")
    shim = Shim(row.shim, place) if row.shim else None
    with row.replicated() if row.replicated else private(store, shim) as database:
        outcome = trio.run(run, row, order, database, place, shim)
    figures = outcome.report.figures
    show({"bench": "campaign", "row": name, "store": kind, "nodes": order.nodes, "seed": order.seed,
          "faults_done": outcome.faults, "seconds": round(outcome.seconds, 1), **figures})  # fmt: skip
    _tell(outcome.report.violations, place)
    return outcome


def _tell(violations: Sequence[Violation], place: Path) -> None:
    """Prints the first violations of each kind and writes all of them to a file beside the history."""
    told: Counter[str] = Counter()
    with (place / "violations.txt").open("w") as file:
        for violation in violations:
            told[violation.kind] += 1
            file.write(violation.told() + "\n")
            if told[violation.kind] <= _TOLD:
                print(violation.told(), file=sys.stderr)
    if violations:
        print(f"{len(violations)} violations; the history is {place / 'history.jsonl'}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
