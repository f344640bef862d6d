"""What an error of Spark's means, in one sentence."""

import pytest
from pyspark.errors import PySparkException

from tarry.pipeline.errors import LakeError, StoreAway
from tarry.pipeline.spark_errors import translate

CORRUPT = (
    "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error while reading file {}. Could not read footer.\n"
    "If not, please convert it."
)


@pytest.mark.parametrize(
    "file",
    [
        "file:///lake/messages/topic=a/day=2026-11-21/part-1.parquet",
        "/the lake/messages/topic=ü/part-1.parquet",
        "s3a://bucket/messages/topic=a.parquet.b/part-1.parquet",
    ],
)
def test_a_damaged_file_is_named(file: str) -> None:
    told = translate(PySparkException(CORRUPT.format(file)))
    assert isinstance(told, LakeError)
    first = file.partition(".parquet")[0] + ".parquet"
    assert str(told).startswith(f"a Parquet file is damaged: {first}")


def test_a_call_is_no_file() -> None:
    told = translate(PySparkException("An error occurred while calling o5214.parquet.\nis not a Parquet file"))
    assert str(told) == "a Parquet file is damaged. Put it back from a backup"


def test_our_own_out_of_a_task_is_as_it_was_raised() -> None:
    told = translate(PySparkException("Traceback:\ntarry.pipeline.errors.StoreAway: the store x does not answer\n at"))
    assert isinstance(told, StoreAway)
    assert str(told) == "the store x does not answer"
    assert translate(LookupError()) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "An error occurred while calling o1.x.\n: java.lang.OutOfMemoryError: Java heap space\n at y",
            "memory is too",
        ),
        (
            "Job aborted\nCaused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            "worker",
        ),
        ("Checkpoint block rdd_7_0 not found! Either the executor", "lost what it had kept"),
        ("ExecutorLostFailure (executor driver exited caused by one of the running tasks)", "lost an executor"),
    ],
)
def test_what_spark_died_of_is_told_with_what_to_do(text: str, says: str) -> None:
    told = str(translate(PySparkException(text)))
    assert says in told
    assert "Nothing was lost; run it again" in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
            ": org.apache.spark.SparkException: Job aborted due to stage failure\n\tat org.apache.x(y.scala:1)\n"
            "Caused by: java.io.IOException: the cable is cut\n\tat a.b",
            "Spark stopped: java.io.IOException: the cable is cut",
        ),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n  File x\n    y = z\n"
            "ValueError: there is no column 'x'\n\tat org.apache.spark.X\nCaused by: java.lang.Exception: q",
            "Spark stopped: ValueError: there is no column 'x'",
        ),
        ("An error occurred while calling o7.collect.\nwhatever it says", "Spark stopped: whatever it says"),
    ],
)
def test_of_anything_else_the_cause_is_told_and_not_the_call(text: str, says: str) -> None:
    assert str(translate(PySparkException(text))) == says
