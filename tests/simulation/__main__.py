"""Runs simulations by their seeds and prints the results: `python -P -m simulation SEED...`; SEED may be FIRST-LAST.

Set PYTHONPATH=.tree:tests, as in CONTRIBUTING.md.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import structlog

from simulation.plants import PLANTS
from simulation.world import simulate


def _seeds(told: list[str]) -> Iterator[int]:
    for one in told:
        first, _, last = one.partition("-")
        yield from range(int(first), int(last or first) + 1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -P -m simulation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("seeds", nargs="+", metavar="SEED", help="a number, or FIRST-LAST")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/simulation"), help="for the histories that are wrong"
    )
    parser.add_argument("--plant", choices=PLANTS, help="a fault to put in")
    order = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    wrong = 0
    for seed in _seeds(order.seeds):
        folder: Path = order.folder / str(seed)
        shutil.rmtree(folder, ignore_errors=True)  # the database of a run that was stopped has the same servers in it
        folder.mkdir(parents=True)
        report = simulate(seed, folder, PLANTS[order.plant] if order.plant else None)
        wrong += bool(report.violations)
        figures = report.figures
        print(
            f"{seed}: {figures['messages']} messages, {figures['faults']}, {figures['kinds'] or 'nothing wrong'}",
            flush=True,
        )
        for violation in report.violations[:5]:
            print(violation.told())
        if not report.violations:
            shutil.rmtree(folder)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
