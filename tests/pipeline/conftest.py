"""One Spark session for all tests of the pipeline, as a report or an audit of a small store opens it."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.spark_wanted import need_spark
from tarry.pipeline import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    need_spark()
    opened = session.open_session("tests", "local[2]", rows=session.FEW)
    yield opened
    opened.stop()
