"""`tarry` as it is installed, with the client alone too: then one sentence says which extra brings the commands.

Nothing is imported here that an extra brings.
"""

import sys

from ...store.extras import lacking


def main() -> None:
    """The installed command. Ends with 1 where the extra is missing."""
    try:
        from .app import main as run
    except ModuleNotFoundError as error:
        # The pipeline's extra brings this one too.
        pipeline = sys.argv[1:2] == ["pipeline"]
        if (sentence := lacking("spark" if pipeline else "server", error)) is None:
            raise
        print(f"tarry{' pipeline' if pipeline else ''}: {sentence}", file=sys.stderr)
        sys.exit(1)
    run()
