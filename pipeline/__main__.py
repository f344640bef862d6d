"""`python -m tarry.pipeline`, and the file to give to `spark-submit`."""

import sys
from pathlib import Path

# spark-submit puts this folder first, where modules would hide those of the standard library.
sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]

from tarry.store.extras import lacking  # noqa: E402

try:
    from tarry.pipeline.cli.app import main
except ModuleNotFoundError as error:
    if (sentence := lacking("spark", error)) is None:
        raise
    sys.exit(f"tarry pipeline: {sentence}")

if __name__ == "__main__":
    main()
