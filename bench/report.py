"""What every bench prints: JSON lines on stdout, one to a measurement and then the ratios; progress on a terminal."""

import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

Figures = dict[str, Any]


def show(line: Mapping[str, Any]) -> None:
    """One line of the result."""
    say("")
    print(json.dumps(line), flush=True)


def summarize(bench: str, **figures: Any) -> None:
    """The line behind those of the runs: what they come to."""
    show({"bench": bench, "summary": "medians of the runs", **figures})


def say(progress: str) -> None:
    """What is being done, over what was done before."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)


def spread(values: Sequence[float], digits: int = 0) -> dict[str, float]:
    """The middle and the ends of what the runs gave."""
    return {
        "median": _round(median(values), digits),
        "min": _round(min(values), digits),
        "max": _round(max(values), digits),
    }


def ratios(runs: Sequence[Mapping[str, float]], of: str, to: str) -> dict[str, float]:
    """How many times `of` is `to`, within each run: what the machine did meanwhile is then in both."""
    return spread([run[of] / run[to] for run in runs], 2)


def column(runs: Sequence[Mapping[str, Mapping[str, float]]], name: str) -> list[dict[str, float]]:
    """One figure of each contestant, run by run."""
    return [{subject: figures[name] for subject, figures in run.items()} for run in runs]


def spreads(runs: Sequence[Mapping[str, float]], digits: int = 0) -> dict[str, dict[str, float]]:
    """The spread of each figure over the runs."""
    return {name: spread([run[name] for run in runs], digits) for name in runs[0]}


def chosen(arguments: Namespace, *names: str) -> Figures:
    """What was asked for, as a summary tells it."""
    return {name: getattr(arguments, name) for name in names}


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of the sorted values do not pass."""
    return values[min(len(values) - 1, int(len(values) * share))]


def _round(value: float, digits: int) -> float:
    return round(value, digits) if digits else round(value)
