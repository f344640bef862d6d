"""Options that several commands share, each with one name, one help text and one rule."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from cyclopts import Parameter, Token

from ...client.durations import is_bare
from .flags import flag


def duration(_type: object, tokens: Sequence[Token]) -> str:
    """Reads a flag's duration, which must have a unit. Raises ValueError, which says what to write."""
    return with_unit(tokens[0].value.strip())


def with_unit(text: str) -> str:
    """Checks that a duration has a unit, and returns it. Raises ValueError, which says what to write."""
    if text.startswith("-"):  # a negative number, or a flag because the value was forgotten
        raise ValueError(f"{text} is no duration, which is not negative: write 10m, 48h or PT10M")
    if is_bare(text):
        raise ValueError(f'{text} has no unit: write "{text}s" for seconds, "{text}ms" for milliseconds')
    return text


Topic: TypeAlias = Annotated[str, Parameter(help="The topic.")]
MessageId: TypeAlias = Annotated[str, Parameter(help="The message's id.")]
Group: TypeAlias = Annotated[str, Parameter(help="The consumer group.")]
DryRun: TypeAlias = Annotated[bool, flag("Tell what it would do, and do nothing.")]
Yes: TypeAlias = Annotated[bool, flag("Do not ask.")]

# Options of a message
Body: TypeAlias = Annotated[str, Parameter(allow_leading_hyphen=True, help="JSON, or - to read it from stdin.")]
AsText: TypeAlias = Annotated[bool, flag("BODY is text, not JSON.")]
ContentType: TypeAlias = Annotated[str | None, Parameter(help="BODY is bytes of this type, not JSON.")]
Delay: TypeAlias = Annotated[
    str | None,
    Parameter(allow_leading_hyphen=True, converter=duration, help="Deliver after this time: 10m, 48h, PT10M."),
]
At: TypeAlias = Annotated[str | None, Parameter(help="Deliver at this time: 2030-01-01T09:00:00Z.")]
Between: TypeAlias = Annotated[tuple[str, str] | None, flag("Deliver in the emptiest second between these two times.")]
ExpiresAt: TypeAlias = Annotated[str | None, Parameter(help="Do not hand it out from this time on.")]
Header: TypeAlias = Annotated[list[str] | None, flag("A header NAME=VALUE; may be repeated.")]
Tag: TypeAlias = Annotated[str | None, Parameter(help="What consumers may select by.")]
Guard: TypeAlias = Annotated[
    str | None, Parameter(help="Asked at its time, with the key, whether it is sent; tarry guards lists them.")
]
OrderingKey: TypeAlias = Annotated[str | None, Parameter(help="Messages of one ordering key share a queue.")]
