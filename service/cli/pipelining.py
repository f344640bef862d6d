"""The command `tarry pipeline`: hands over to the pipeline, a program of its own that loads Spark."""

import os
import sys
from typing import Annotated

from cyclopts import Parameter


def pipeline(*arguments: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> None:
    """Archive, report, audit, trace, import and replay, on Spark.

    `tarry pipeline --help` lists its commands.
    """
    os.execv(sys.executable, [sys.executable, "-P", "-m", "tarry.pipeline", *arguments])  # noqa: S606
