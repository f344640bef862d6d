"""One Spark session for all tests of the pipeline."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.servers import skip_or_fail
from tarry.pipeline import session
from tarry.pipeline.errors import SetUpError


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        opened = session.open_session("tests", "local[2]")
    except SetUpError as missing:
        skip_or_fail(str(missing))
    opened.conf.set("spark.sql.shuffle.partitions", "2")
    yield opened
    opened.stop()
