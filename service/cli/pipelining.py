"""`tarry pipeline`: hands over to the pipeline, which the service knows nothing of and which loads Spark."""

import os
import sys
from typing import Annotated

from cyclopts import Parameter


def pipeline(*arguments: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> None:
    """Archive, report, audit, trace, import and replay, on Spark.

    `tarry pipeline --help` tells the rest.
    """
    os.execv(sys.executable, [sys.executable, "-P", "-m", "tarry.pipeline", *arguments])  # noqa: S606
