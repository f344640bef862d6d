"""Archiving in this process, and the rows of lake and store as they can be compared."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tarry.pipeline import source
from tarry.pipeline.archive import Archiver
from tarry.pipeline.lake import Lake
from tarry.pipeline.schemas import TABLES
from tarry.pipeline.tenure import Tenure


def archive(
    spark: SparkSession, dsn: str, lake: Path | str, *, cap: int = 1_000_000, new_lake: bool = False
) -> dict[str, int]:
    """One run; the rows it archived by table."""
    with Tenure(dsn, "test-archiver") as tenure:
        archiver = Archiver(spark, dsn, Lake(str(lake)), tenure, cap)
        archiver.begin(new_lake=new_lake)
        archiver.run()
        return archiver.rows


def in_store(spark: SparkSession, dsn: str, table: str) -> list[Any]:
    source.register(spark)
    return rows(spark.read.format("tarry").option("dsn", dsn).option("table", table).load())


def in_lake(spark: SparkSession, lake: Path, table: str) -> list[Any]:
    snapshot = Lake(str(lake)).open(table)
    assert snapshot is not None
    return rows(snapshot.frame(spark).select(*TABLES[table].names))


def rows(frame: DataFrame) -> list[Any]:
    return sorted(frame.collect(), key=repr)
