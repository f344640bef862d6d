"""Formats the table of a run as Markdown, as in docs/benchmarks.md."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any

from attrs import frozen

from ..report import Figures
from .peer import Peer

Found = Mapping[str, Mapping[str, Sequence[Figures]]]
"""The figures by work and peer, run by run; a failed run has none."""

OURS = ("tarry-mysql", "tarry-sqlite")
"""The first of these that ran is compared with the best peer; first the one with a database server, as peers have."""


@frozen
class Row:
    """One figure of the table."""

    label: str
    work: str
    figure: str
    best: Callable[[list[float]], float] | None
    """Picks the best of the peers' values; None: not compared."""
    digits: int = 0


def rows(callers: Sequence[int]) -> list[Row]:
    """All figures, in the order of the table."""
    found: list[Row] = []
    for number in callers:
        said = f"{number} caller{'s' if number > 1 else ''}"
        found.append(Row(f"a. publishes a second, {said}", "a", f"per_s_{number}", max))
        found.append(Row(f"p50, {said}, ms", "a", f"p50_ms_{number}", min, 2))
        found.append(Row(f"p99, {said}, ms", "a", f"p99_ms_{number}", min, 2))
    return [
        *found,
        Row("b. lateness, p50, ms", "b", "p50_ms", min, 1),
        Row("p99, ms", "b", "p99_ms", min, 1),
        Row("c. handed out and acked a second", "c", "per_s", max),
        Row("d. scheduled a second", "d", "per_s", max),
        Row("memory of the server for each, bytes", "d", "bytes_each", min),
        Row("after `kill -9`: answers after, s", "d", "ready_s", min, 2),
        Row("an overdue message handed out after, s", "d", "first_s", min, 2),
        Row("e. a burst: the last is handed out after, s", "e", "all_s", min, 2),
        Row("f. idle: the server, % of a core", "f", "server_percent", None, 1),
        Row("server and clients, % of a core", "f", "all_percent", None, 1),
        Row("queries a second", "f", "queries_per_s", None, 1),
    ]


def markdown(found: Found, peers: Mapping[str, Peer], callers: Sequence[int], versions: Mapping[str, str]) -> str:
    """The table, and below it what each peer promises and lacks."""
    measured = [row for row in rows(callers) if row.work in found]
    ours = next((name for name in OURS if name in peers), None)
    others = [name for name in peers if name not in OURS]
    compared = ours is not None and bool(others)
    heads = ["", *peers, *([f"{ours} to the best peer"] if compared else [])]
    lines = [_line(heads), _line(["---", *["---:"] * (len(heads) - 1)])]
    for row in measured:
        cells = [row.label, *(_cell(found[row.work][name], row) for name in peers)]
        lines.append(_line([*cells, *([_times(found[row.work], ours, others, row)] if ours and compared else [])]))
    lines.append("")
    for name, peer in peers.items():
        version = versions.get(name, "it did not start")
        lines.append(f"- **{name}** ({version}): {peer.durability}{peer.lacks and '. ' + peer.lacks}.")
    return "\n".join([*lines, *_faults(found)])


def _faults(found: Found) -> list[str]:
    """Messages that came twice, early, late or not at all."""
    wrong = [_told(found, fault, fault) for fault in ("early", "doubled", "lost")]
    late = _told(found, "missing", "not handed out in time")
    return [*(list(chain(*wrong)) or ["- None was early, doubled or lost."]), *late]


def _told(found: Found, fault: str, words: str) -> list[str]:
    return [
        f"- {name}, work {work}: {number:,} {words}."
        for work, by_peer in found.items()
        for name, runs in by_peer.items()
        if (number := sum(figures.get(fault, 0) for figures in runs))
    ]


def _cell(runs: Sequence[Figures], row: Row) -> str:
    if not runs:
        return "failed"
    values: list[Any] = [figures[row.figure] for figures in runs]
    if None in values:
        return "—"
    # The burst was not over, so it took longer than that.
    more = "> " if row.work == "e" and any(figures["missing"] for figures in runs) else ""
    return f"{more}{median(values):,.{row.digits}f}"


def _times(by_peer: Mapping[str, Sequence[Figures]], ours: str, others: Sequence[str], row: Row) -> str:
    """How many times as good as the best peer of the same run; above 1, Tarry is better."""
    if row.best is None:
        return ""
    ratios: list[float] = []
    for number, figures in enumerate(by_peer[ours]):
        rivals = [by_peer[name][number][row.figure] for name in others if number < len(by_peer[name])]
        rivals = [rival for rival in rivals if rival is not None]
        mine = figures[row.figure]
        if rivals and mine is not None and min(mine, *rivals) > 0:
            best = row.best(rivals)
            ratios.append(mine / best if row.best is max else best / mine)
    return f"{median(ratios):.2f}" if ratios else ""


def _line(cells: Sequence[str]) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"
