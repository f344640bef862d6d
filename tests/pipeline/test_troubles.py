"""What an error of Spark's means, in one sentence."""

import pytest
from pyspark.errors import PySparkException

from tarry.pipeline.errors import LakeError, StoreAway
from tarry.pipeline.troubles import translate

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
