"""Turns errors that come out of Spark, from whatever depth, into the pipeline's own, each with one sentence."""

import re
import signal
from collections.abc import Generator
from contextlib import contextmanager

from . import errors
from .errors import LakeError, PipelineError
from .session import end_of_java

_RAISED = re.compile(r"tarry\.pipeline\.errors\.(\w+): (.+)")
_CORRUPT = re.compile(
    r"is not a Parquet file|FAILED_READ_FILE|CANNOT_READ_FILE|Could not read footer|ParquetDecodingException"
)
_MISSING = re.compile(r"FILE_NOT_EXIST|FileNotFoundException|PATH_NOT_FOUND")
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_FILE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?/[^\n\"'\]]*?\.parquet")
"""A path or URL; it may have spaces."""
_FOREIGN = ("pyspark.", "py4j.")
_PYTHON_RAISED = re.compile(r"\s*(?!java\.|org\.|Caused by)[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b: ")
_AWAY = re.compile(r"Py4JNetworkError|Connection|Answer from Java side is empty|EOFError")
"""Matches py4j's errors when Java does not answer any more."""
_PATIENCE = 5.0
"""Seconds within which the system must know of the end of Java, once the connection to it is broken."""
_NOTHING_LOST = "Nothing was lost; run it again"
_CAUSES = (
    (
        re.compile(r"OutOfMemoryError|Not enough memory|SparkOutOfMemory"),
        "Spark's memory is too small for this job: set SPARK_DRIVER_MEMORY, such as 4g, or give it fewer tasks at once"
        f" with --master local[1]. {_NOTHING_LOST}",
    ),
    (
        re.compile(r"Python worker exited unexpectedly|Python worker.*(?:crashed|died|killed)|PYTHON_WORKER_EXITED"),
        "a Python worker of Spark's was killed, as the system does when memory is short, or crashed: give the machine"
        f" more, or Spark fewer tasks at once with --master local[1]. {_NOTHING_LOST}",
    ),
    (
        re.compile(r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block \S+ not found"),
        "Spark lost what it had kept of an earlier step, as it does when an executor is lost or does not answer for"
        f" minutes on an overloaded machine: run it with less beside it, or with less at once. {_NOTHING_LOST}",
    ),
    (
        re.compile(r"ExecutorLostFailure|Executor heartbeat timed out|SparkContext was shut down"),
        f"Spark lost an executor in the middle of the job: see why in its log, or on its machine. {_NOTHING_LOST}",
    ),
)
"""What Java's many lines mean; the first pattern that fits counts."""


def translate(error: BaseException) -> PipelineError | None:
    """The meaning of an error from Spark; None if it is not from Spark."""
    if isinstance(error, PipelineError):
        return error
    foreign = type(error).__module__.startswith(_FOREIGN)
    if not foreign and not isinstance(error, ConnectionError | EOFError):
        return None
    ended = end_of_java(_PATIENCE if _AWAY.search(f"{type(error).__name__} {error}") else 0.0)
    if ended is not None:
        return PipelineError(_java_ended(ended))
    if not foreign:
        return None
    text = str(error)
    if raised := _RAISED.findall(text):  # by a task of ours
        name, sentence = raised[-1]
        return getattr(errors, name, PipelineError)(sentence.strip())
    found = _FILE.search(text)
    file = f": {found[0]}" if found is not None else ""
    if _MISSING.search(text):
        return LakeError(f"a file that the lake lists is missing{file}. Put it back from a backup")
    if _CORRUPT.search(text):
        return LakeError(f"a Parquet file is damaged{file}. Put it back from a backup")
    if _FULL.search(text):
        return LakeError("a disk is full; make room, and run it again: nothing was lost")
    for pattern, sentence in _CAUSES:
        if pattern.search(text):
            return PipelineError(sentence)
    return PipelineError(f"Spark stopped: {_first_cause(text) or type(error).__name__}")


@contextmanager
def translated() -> Generator[None]:
    """Raises errors from Spark as the pipeline's own, within a `with`."""
    try:
        yield
    except Exception as error:
        found = translate(error)
        if found is None or found is error:
            raise
        raise found from error


def _java_ended(code: int) -> str:
    if code == -signal.SIGKILL:
        return (
            "Java, in which Spark runs, was killed (SIGKILL), as the system does when memory is short: give the machine"
            f" more, or Spark fewer tasks at once with --master local[1]. {_NOTHING_LOST}"
        )
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return f"Java, in which Spark runs, ended {how} in the middle of the job. {_NOTHING_LOST}"


def _first_cause(text: str) -> str:
    """The deepest reason: how a Python worker's traceback ends, or the last cause that Java gives, or else the first
    line; never just which call failed."""
    raised = [line for line in text.splitlines() if _PYTHON_RAISED.match(line)]
    if "Traceback (most recent call last)" in text and raised:
        return raised[-1].strip()[:300]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by:").strip() for line in lines if line.startswith("Caused by:")]
    said = [line for line in lines if not line.startswith(("An error occurred while calling", "Traceback", "at "))]
    return next((line for line in (*reversed(causes), *said, *lines)), "")[:300]
