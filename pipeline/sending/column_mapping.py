"""Which column of a file becomes which part of a message: the options of an import, without Spark."""

import re
from zoneinfo import ZoneInfo

from attrs import frozen


@frozen(kw_only=True)
class ColumnMapping:
    """The names of columns; the texts below are the help of the command."""

    body: str = "*"
    """The column that holds the body; `*` is the whole row as a JSON object."""
    deliver_at: str | None = None
    """The column with the time: RFC 3339, Unix milliseconds, or a timestamp of Parquet."""
    delay: str | None = None
    """The column with a delay from now: milliseconds, 10m, PT10M."""
    expires_at: str | None = None
    """The column with the time after which the message is of no use; as `--deliver-at`."""
    key: str | None = None
    """The column with the key."""
    ordering_key: str | None = None
    """The column with the ordering key."""
    tag: str | None = None
    """The column with the tag."""
    headers: str | None = None
    """The column with the headers, a JSON object."""
    content_type: str | None = None
    """The content type of bodies that are no JSON, such as text/plain."""
    id: tuple[str, ...] = ()
    """Columns that identify a row, if its content does not."""
    zone: str | None = None
    """The zone of times without one, such as Europe/Berlin."""

    def check(self) -> None:
        """Raises ValueError for options that do not go together, and for a zone that Spark does not know."""
        if self.deliver_at is not None and self.delay is not None:
            raise ValueError("--deliver-at and --delay: a message has one of them")
        if self.zone is None or re.fullmatch(r"[+-]\d\d:\d\d", self.zone):
            return
        try:
            ZoneInfo(self.zone)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f'--zone: "{self.zone}" is no zone, such as Europe/Berlin, UTC or +01:00') from error
