"""The errors of a job, each with one sentence that says what to do."""

FAILED = 1
"""The exit code of a command that failed, or did not find all well."""
_TRY_AGAIN = 75


class PipelineError(Exception):
    """The job stopped. Nothing was lost, and the next run goes on."""

    exit_code = FAILED
    """The exit code of the command."""


class SetUpError(PipelineError):
    """Java, PySpark or another part that the job runs on is missing or too old."""


class LakeError(PipelineError):
    """The lake cannot be used: it is newer than the program, damaged, read-only or full."""


class InUse(PipelineError):
    """Another archiver is at work on the same store."""

    exit_code = _TRY_AGAIN


class StoreAway(PipelineError):
    """The store went away, or refused."""

    exit_code = _TRY_AGAIN


class NotFound(PipelineError):
    """A file, a topic, a group or a message that the job names is not there."""

    exit_code = 3


def no_such_topic(topic: str, *, store: bool, lake: bool) -> NotFound:
    """The error for an unknown topic, which names the places where it was looked for."""
    places = [place for place, there in (("the store", store), ("the lake", lake)) if there]
    return NotFound(f"--topic {topic}: there is no such topic in {' or '.join(places)}")
