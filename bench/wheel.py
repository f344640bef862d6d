"""What does a pending timer cost: bytes at rest, time to add, time of a tick?

    python -m tarry.bench.wheel [--entries 10000000] [--runs 5]

Timers are due at random milliseconds of the next 48 hours, in Tarry's wheel and in the published one. Each wheel is
filled twice: in pages in order of due time, as the store fills Tarry's wheel, and in random order, as timers arrive,
which is the only order for a wheel without a store. Each measurement runs in its own process, to measure its memory.

A tick moves the hand by one second and takes out the timers that are due. `tick_us` is the median; `tick_us_mean` is
the mean of an hour's ticks, one of which begins a cycle and deals it, so the cost of the deal is included. The last
line has the ratios, medians over the runs.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import tempfile
import time
from array import array
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Protocol

from ..store.ids import SEQUENCE_BITS
from ..wheel.timing_wheel import TimingWheel
from .report import Figures, column, ratios, say, show, spreads, summarize
from .rival_wheels import TextbookWheel
from .usage import rss_of

NOW = 1_763_694_000_000  # a full hour
SPAN_MS = 48 * 3_600_000
PAGE = 10_000
HOUR = 3_600

# Each subject: the wheel, the order in which it is filled, the number of ticks. The textbook wheel's ticks are all
# alike, so a few hundred are enough.
SUBJECTS: dict[str, tuple[type[TimingWheel | TextbookWheel], str, int]] = {
    "tarry, pages": (TimingWheel, "ascending", HOUR),
    "tarry, random": (TimingWheel, "random", HOUR),
    "textbook, pages": (TextbookWheel, "ascending", 400),
    "textbook, random": (TextbookWheel, "random", 400),
}


class Wheel(Protocol):
    def add_many(self, dues: array[int], ids: array[int], /) -> None: ...
    def advance(self, now: int, /) -> list[int]: ...


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tarry.bench.wheel", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", type=int, default=10_000_000, help="pending timers (default: 10 million)")
    parser.add_argument("--runs", type=int, default=5, help="runs, of which the ratios are medians (default: 5)")
    arguments = parser.parse_args()
    if arguments.entries < 100_000 or arguments.runs < 1:
        parser.error("fewer than 100000 entries or 1 run measure nothing")
    context = multiprocessing.get_context("spawn")
    runs: list[dict[str, Figures]] = []
    with tempfile.TemporaryDirectory() as folder:
        say(f"making {arguments.entries} timers")
        write_timers(Path(folder), arguments.entries)
        for run in range(1, arguments.runs + 1):
            runs.append({})
            for subject in SUBJECTS:
                say(f"run {run} of {arguments.runs}: {subject}")
                with context.Pool(1) as pool:
                    runs[-1][subject] = measured = pool.apply(measure, (subject, folder))
                show({"bench": "wheel", "subject": subject, "run": run, "entries": arguments.entries, **measured})
    figures = {name: column(runs, name) for name in ("bytes_per_entry", "bulk_per_s", "tick_us", "tick_us_mean")}
    cheaper = ("bytes_per_entry", "tick_us", "tick_us_mean")
    summarize(
        "wheel",
        **{name: spreads(found, 2) for name, found in figures.items()},
        times_cheaper={
            said: {name: ratios(figures[name], theirs, ours) for name in cheaper}
            for said, theirs, ours in (
                # Each filled in its usual way: Tarry's in pages from the store, the textbook's in random order.
                ("than the textbook", "textbook, random", "tarry, pages"),
                ("than the textbook, both pages", "textbook, pages", "tarry, pages"),
                ("than the textbook, both random", "textbook, random", "tarry, random"),
            )
        },
    )


def write_timers(folder: Path, entries: int) -> None:
    """Writes the due times to files that all processes read, once in order and once at random."""
    chance = Random(2013).random
    dues = [NOW + 1 + int(chance() * SPAN_MS) for _ in range(entries)]
    (folder / "random").write_bytes(array("q", dues).tobytes())
    dues.sort()
    (folder / "ascending").write_bytes(array("q", dues).tobytes())


def measure(subject: str, folder: str) -> Figures:
    make, order, ticks = SUBJECTS[subject]
    dues, ids = read_timers(Path(folder) / order)
    pages = [(dues[start : start + PAGE], ids[start : start + PAGE]) for start in range(0, len(dues), PAGE)]
    gc.collect()
    gc.disable()  # a collection would be a cost of the bench, not of the wheel
    before = rss_of(os.getpid())
    wheel: Wheel = make(NOW)
    started = time.perf_counter()
    for page_dues, page_ids in pages:
        wheel.add_many(page_dues, page_ids)
    bulk = time.perf_counter() - started
    bytes_held = rss_of(os.getpid()) - before

    # An hour of ticks that starts after half an hour: one cycle ends in it and one begins.
    hand = NOW + 1_800_000
    taken = len(wheel.advance(hand)) if ticks == HOUR else 0
    hand = hand if ticks == HOUR else NOW
    costs: list[float] = []
    for _ in range(ticks):
        hand += 1_000
        started = time.perf_counter()
        taken += len(wheel.advance(hand))
        costs.append((time.perf_counter() - started) * 1e6)
    expected = sum(due <= hand for due in dues)
    if taken != expected:
        raise AssertionError(f"{subject}: {taken} timers came out, {expected} were due")

    return {
        "bytes_per_entry": round(bytes_held / len(dues), 1),
        "bulk_per_s": round(len(dues) / bulk),
        "tick_us": round(median(costs), 2),
        "tick_us_mean": round(fmean(costs), 2),
    }


def read_timers(path: Path) -> tuple[array[int], array[int]]:
    dues = array("q")
    dues.frombytes(path.read_bytes())
    low = (1 << SEQUENCE_BITS) - 1
    return dues, array("q", [due << SEQUENCE_BITS | number & low for number, due in enumerate(dues)])


if __name__ == "__main__":
    main()
