"""How many tasks a shuffle is cut into."""

from pyspark.sql import SparkSession

_SHUFFLE = "spark.sql.shuffle.partitions"
_SPARKS_OWN = "200"
_PER_CORE = 16


def suit_this_machine(spark: SparkSession) -> None:
    """On one machine, fewer tasks than Spark's 200: most of a report's shuffles are small. A setting of the user's
    stays, and so does a cluster's."""
    if str(spark.sparkContext.master).startswith("local") and spark.conf.get(_SHUFFLE) == _SPARKS_OWN:
        spark.conf.set(_SHUFFLE, str(_PER_CORE * spark.sparkContext.defaultParallelism))
