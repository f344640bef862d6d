"""Does this history keep Tarry's promises?

    python -P -m tarry.bench.checker HISTORY.jsonl

Prints one JSON line with the figures, then each violation with the events of its message. Exit code 1 if there are any.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .event import read
from .report import check


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -P -m tarry.bench.checker", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("history", type=Path, help="JSON lines, as the campaign writes them")
    report = check(read(parser.parse_args(arguments).history))
    print(msgspec.json.encode(report.figures).decode())
    for violation in report.violations:
        print(violation.told())
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
