"""Errors that come out of Spark, of whatever depth, as one sentence of ours."""

import re

from .errors import InUse, LakeError, PipelineError, StoreAway

_OURS = {kind.__name__: kind for kind in (InUse, LakeError, PipelineError, StoreAway)}
_RAISED = re.compile(r"tarry\.pipeline\.errors\.(\w+): (.+)")
_CORRUPT = re.compile(
    r"is not a Parquet file|FAILED_READ_FILE|CANNOT_READ_FILE|Could not read footer|ParquetDecodingException"
)
_MISSING = re.compile(r"FILE_NOT_EXIST|FileNotFoundException|PATH_NOT_FOUND")
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_FILE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?/[^\n\"'\]]*?\.parquet")
"""A path or URL; it may have spaces."""
_FOREIGN = ("pyspark.", "py4j.")


def translate(error: BaseException) -> PipelineError | None:
    """What an error of Spark's means, or None when it is none of Spark's."""
    if isinstance(error, PipelineError):
        return error
    if not type(error).__module__.startswith(_FOREIGN):
        return None
    text = str(error)
    raised = _RAISED.search(text)
    if raised is not None:  # by a task of ours
        return _OURS.get(raised[1], PipelineError)(raised[2].strip())
    found = _FILE.search(text)
    file = f": {found[0]}" if found is not None else ""
    if _MISSING.search(text):
        return LakeError(f"a file that the lake lists is missing{file}. Put it back from a backup")
    if _CORRUPT.search(text):
        return LakeError(f"a Parquet file is damaged{file}. Put it back from a backup")
    if _FULL.search(text):
        return LakeError("a disk is full; make room, and run it again: nothing was lost")
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return PipelineError(f"Spark stopped: {first[:300]}")
