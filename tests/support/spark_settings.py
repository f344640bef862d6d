"""Small tables want no compiler: what Spark does for large ones takes longer here than the work itself."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@contextmanager
def small(spark: SparkSession) -> Iterator[None]:
    """While it lasts, queries are interpreted."""
    before = {name: spark.conf.get(name) for name in _SMALL}
    for name, value in _SMALL.items():
        spark.conf.set(name, value)
    yield
    for name, told in before.items():
        if told is not None:
            spark.conf.set(name, told)
