"""What a job says when Java is not where it is said to be."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.spark_wanted import need_spark
from tarry.pipeline import session
from tarry.pipeline.errors import SetUpError


def test_a_session_has_the_name_of_its_job(spark: SparkSession) -> None:
    """By which whoever runs the cluster knows it."""
    assert spark.conf.get("spark.app.name") == "tarry tests"


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need_spark()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetUpError, match=rf"JAVA_HOME names {tmp_path}, where there is no bin/java"):
        session.check()


def test_no_java_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need_spark()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetUpError, match="there is none: apt install"):
        session.check()


def test_an_old_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need_spark()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetUpError, match=rf"{java} is Java 8: install a newer one"):
        session.check()


_JOBS = """
import sys
sys.modules["pyspark"] = None  # as where it is not installed
from tarry.pipeline.cli.app import run
for job in (
    ["archive", "--lake", "lake"],
    ["report", "--output", "report"],
    ["audit"],
    ["trace", "--key", "k"],
    ["import", "rows.csv", "--topic", "t", "--dsn", "mysql://root@127.0.0.1/x"],
    ["replay", "--to-topic", "t"],
):
    print(job[0], run(job))
"""


def test_every_job_says_that_pyspark_is_missing() -> None:
    told = subprocess.run([sys.executable, "-P", "-c", _JOBS], capture_output=True, text=True, timeout=60, check=True)
    assert set(told.stderr.splitlines()) == {
        "tarry pipeline: the pipeline is not installed (PySpark is missing): pip install 'tarry[spark]'"
    }
    jobs = ("archive", "report", "audit", "trace", "import", "replay")
    assert told.stdout.splitlines() == [f"{job} 1" for job in jobs]
