"""The folder that a report is written to: any path or URL that Spark's Hadoop can write, the local disk among them."""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from pyspark.sql import SparkSession

from ..errors import PipelineError

_py4j: Any = import_module("py4j.protocol")  # without types

_PROBE = ".tarry"


def check(folder: str) -> None:
    """Checks without Spark that a folder can be written; raises `PipelineError` if not. A URL, and a path under
    `spark-submit`, which may be one of the cluster's, only Spark can check."""
    path = folder.removeprefix("file://")
    if re.match("[A-Za-z][A-Za-z0-9+.-]*:", path) or (path == folder and "PYSPARK_GATEWAY_PORT" in os.environ):
        return
    there = Path(path).absolute()
    try:
        while not there.exists():
            there = there.parent
        with TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise PipelineError(f"--output {folder} cannot be written: {there}: {error.strerror}") from None


@contextmanager
def open_folder(spark: SparkSession, folder: str) -> Generator["Folder"]:
    """Opens a folder; raises `PipelineError` if it cannot be written, before the figures are made, which may take
    hours."""
    opened = Folder(spark, folder)
    try:
        opened.write(_PROBE, b"")
        opened.remove(_PROBE)
        yield opened
    finally:
        opened.close()


class Folder:
    """A folder whose files are written whole, and over those that are there."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Raises `PipelineError` for a URL that Hadoop cannot write to."""
        gateway: Any = spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]  # PySpark has no other way to Hadoop
        context: Any = spark.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
        self._hadoop = gateway.org.apache.hadoop.fs
        self._folder = folder
        try:
            self._path = self._hadoop.Path(folder)
            # An instance of its own, without checksum files, which a reader of a report does not want.
            self._files = self._hadoop.FileSystem.newInstance(self._path.toUri(), context.hadoopConfiguration())
            self._files.setWriteChecksum(False)
        except _py4j.Py4JError as error:
            raise PipelineError(f"--output {folder}: {_says(error)}") from None

    def write(self, name: str, content: bytes) -> str:
        """Writes a file; returns its whole path."""
        path = self._hadoop.Path(self._path, name)
        try:
            stream = self._files.create(path, True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()
            return str(self._files.makeQualified(path).toString()).removeprefix("file:")
        except _py4j.Py4JError as error:
            raise PipelineError(f"--output {self._folder} cannot be written: {_says(error)}") from None

    def remove(self, name: str) -> None:
        self._files.delete(self._hadoop.Path(self._path, name), False)

    def close(self) -> None:
        self._files.close()


def _says(error: Exception) -> str:
    """The error of the Java side, in one line."""
    if isinstance(error, _py4j.Py4JJavaError):
        java: Any = getattr(error, "java_exception")  # noqa: B009  # without types
        return str(java.getMessage() or java.toString()).splitlines()[0]
    return str(error).splitlines()[0]
