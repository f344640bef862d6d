"""What a test of the pipeline needs of the machine: PySpark and Java."""

from support.servers import skip_or_fail
from tarry.pipeline import session
from tarry.pipeline.errors import SetUpError


def need_spark() -> None:
    """Without them the test is skipped on a person's machine, and fails where CI is set."""
    try:
        session.check()
    except SetUpError as missing:
        skip_or_fail(str(missing))
