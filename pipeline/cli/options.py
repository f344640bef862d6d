"""The options that several commands share, each with one name, one help text and one rule.

The store is `--dsn`, else `TARRY_DSN` or the content of the file that `TARRY_DSN_FILE` names, else
`sqlite:///tarry.db`. If history is read and a lake is named, there is no such default: the lake is enough.
"""

import math
import os
from typing import Annotated, TypeAlias, TypeVar

from cyclopts import Parameter

from ...store.environment import secret
from ..times import parse_time

_DSN = "sqlite:///tarry.db"

T = TypeVar("T")
Flat: TypeAlias = Annotated[T, Parameter(name="*")]
"""A record whose fields are options, each with the text below it as its help."""

_STORE = "The store: sqlite:///FILE or mysql://USER:PASSWORD@HOST/DATABASE."
Dsn: TypeAlias = Annotated[str | None, Parameter(name="--dsn", help=f"{_STORE} [TARRY_DSN, or {_DSN}]")]
DsnOrLake: TypeAlias = Annotated[
    str | None, Parameter(name="--dsn", help=f"{_STORE} [TARRY_DSN, or {_DSN} when there is no --lake]")
]
LakeUrl: TypeAlias = Annotated[str | None, Parameter(name="--lake", help="The lake: a folder or a URL.")]
Topics: TypeAlias = Annotated[list[str] | None, Parameter(name="--topic", help="Only this topic; may be repeated.")]
Since: TypeAlias = Annotated[str | None, Parameter(name="--from", help="Only from this time on; RFC 3339.")]
Until: TypeAlias = Annotated[str | None, Parameter(name="--to", help="Only before this time; RFC 3339.")]
Master: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--master", help="Spark's master, such as local[2] or spark://HOST:7077. [spark-submit's, or this machine]"
    ),
]
AsJson: TypeAlias = Annotated[bool, Parameter(name="--json", help="JSON in place of tables, an object a line.")]


def store_of(dsn: str | None) -> str:
    """The store of a job that needs one."""
    return dsn or _from_environment() or _DSN


def store_beside(dsn: str | None, lake: str | None) -> str | None:
    """The store of a job that reads history; None if a lake is named and no store."""
    return dsn or _from_environment() or (_DSN if lake is None else None)


def _from_environment() -> str | None:
    """The DSN in the environment, read as the server reads it. Raises ValueError, which names the variable."""
    found = secret("TARRY_DSN", os.environ)
    return found and found[0]


def check_rate(rate: float | None, what: str) -> None:
    """Raises ValueError for a rate of `what` a second that is 0, less, NaN or infinite."""
    if rate is not None and not 0 < rate < math.inf:
        raise ValueError(f"--rate: more than 0 {what} a second")


def window(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """`--from` and `--to` as Unix milliseconds. Raises ValueError, which names the option."""
    begin = None if since is None else parse_time(since, "--from")
    end = None if until is None else parse_time(until, "--to")
    if begin is not None and end is not None and begin >= end:
        raise ValueError("--from has to be before --to")
    return begin, end
