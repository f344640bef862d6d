"""Settings of Spark for small tables, where compiling a query takes longer than running it."""

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
    """Makes Spark interpret queries within the block."""
    before = {name: spark.conf.get(name) for name in _SMALL}
    for name, value in _SMALL.items():
        spark.conf.set(name, value)
    yield
    for name, told in before.items():
        if told is not None:
            spark.conf.set(name, told)
