"""Checks that the machine has what tests of the pipeline need: PySpark and Java."""

from support.servers import skip_or_fail
from tarry.pipeline import session
from tarry.pipeline.errors import SetUpError


def need_spark() -> None:
    """Skips the test if they are missing; fails it where CI is set."""
    try:
        session.check()
    except SetUpError as missing:
        skip_or_fail(str(missing))
