"""The output of every bench: JSON lines on stdout, one per measurement and then a summary; progress on a terminal."""

import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

Figures = dict[str, Any]


def show(line: Mapping[str, Any]) -> None:
    """Prints one line of the result."""
    say("")
    print(json.dumps(line), flush=True)


def summarize(bench: str, **figures: Any) -> None:
    """Prints the line that follows those of the runs: their summary."""
    show({"bench": bench, "summary": "medians of the runs", **figures})


def say(progress: str) -> None:
    """Shows progress on a terminal, over the previous progress line."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)


def spread(values: Sequence[float], digits: int = 0) -> dict[str, float]:
    """The median, minimum and maximum of the runs' values."""
    return {
        "median": _round(median(values), digits),
        "min": _round(min(values), digits),
        "max": _round(max(values), digits),
    }


def ratios(runs: Sequence[Mapping[str, float]], of: str, to: str) -> dict[str, float]:
    """The spread of `of` divided by `to` within each run, so that other load on the machine affects both."""
    return spread([run[of] / run[to] for run in runs], 2)


def column(runs: Sequence[Mapping[str, Mapping[str, float]]], name: str) -> list[dict[str, float]]:
    """One figure of each contestant, run by run."""
    return [{subject: figures[name] for subject, figures in run.items()} for run in runs]


def spreads(runs: Sequence[Mapping[str, float]], digits: int = 0) -> dict[str, dict[str, float]]:
    """The spread of each figure over the runs."""
    return {name: spread([run[name] for run in runs], digits) for name in runs[0]}


def chosen(arguments: Namespace, *names: str) -> Figures:
    """The named options, for a summary."""
    return {name: getattr(arguments, name) for name in names}


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of the sorted values do not exceed."""
    return values[min(len(values) - 1, int(len(values) * share))]


def _round(value: float, digits: int) -> float:
    return round(value, digits) if digits else round(value)
