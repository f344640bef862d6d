"""The entry point `tarry`, also with the client alone: then it prints which extra brings the commands.

`--help` and `--version` succeed even then, since they need nothing that is missing. This file imports nothing that an
extra brings.
"""

import sys

from ... import __version__
from ...store.extras import lacking


def main() -> None:
    """The installed command. If the extra is missing it exits with 1, except for `--help` and `--version`."""
    try:
        from .app import main as run
    except ModuleNotFoundError as error:
        # The pipeline's extra includes that of the server.
        pipeline = sys.argv[1:2] == ["pipeline"]
        if (sentence := lacking("spark" if pipeline else "server", error)) is None:
            raise
        if sys.argv[1:] == ["--version"]:
            print(__version__)
        elif sys.argv[1:] in (["--help"], ["-h"]):
            print(f"tarry {__version__}, the client for Python alone: {sentence}")
        else:
            print(f"tarry{' pipeline' if pipeline else ''}: {sentence}", file=sys.stderr)
            sys.exit(1)
        return
    run()
