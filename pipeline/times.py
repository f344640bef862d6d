"""Converts times between RFC 3339, as options and outputs have them, and milliseconds since 1970."""

import re
from datetime import UTC, datetime

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def parse_time(text: str, option: str) -> int:
    """Milliseconds since 1970. Raises `ValueError`, which names the option."""
    if not _RFC_3339.fullmatch(text):
        raise ValueError(f'{option}: "{text}" is not a time in RFC 3339, such as 2026-01-31T12:00:00Z')
    try:
        return milliseconds_of(datetime.fromisoformat(text.upper()))
    except ValueError as error:
        raise ValueError(f'{option}: "{text}": {error}') from None


def milliseconds_of(time: datetime) -> int:
    """Milliseconds since 1970; a time without a zone is in UTC."""
    return round(time.replace(tzinfo=time.tzinfo or UTC).timestamp() * 1000)


def moment(milliseconds: int) -> datetime:
    """The datetime of a time, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def time_text(value: datetime) -> str:
    """RFC 3339 in UTC. Spark gives datetimes without a zone, in that of this machine."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
