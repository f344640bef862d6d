"""`tarry` as it is installed, with the client alone too: then one sentence says which extra brings the commands.

Who asks for help or the version has asked for nothing that is missing. Nothing is imported here that an extra brings.
"""

import sys

from ... import __version__
from ...store.extras import lacking


def main() -> None:
    """The installed command. Where the extra is missing it ends with 1, but for `--help` and `--version`."""
    try:
        from .app import main as run
    except ModuleNotFoundError as error:
        # The pipeline's extra brings this one too.
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
