"""`tarry pipeline trace`."""

import sys
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Annotated, Any

from attrs import asdict
from cyclopts import Parameter

from ...store.printable import json_text, print_table
from ...store.whole_number import whole_number
from ..errors import NotFound
from ..times import moment, time_text
from .options import AsJson, DsnOrLake, LakeUrl, Topics, store_beside

_COLUMNS = ("at", "what", "group", "client", "attempt", "reason", "place", ">held")


def trace(
    *,
    id: list[str] | None = None,  # noqa: A002  # the option's name
    key: str | None = None,
    topic: Topics = None,
    dsn: DsnOrLake = None,
    lake: LakeUrl = None,
    max: Annotated[int, Parameter(converter=whole_number)] = 100,  # noqa: A002  # the option's name
    as_json: AsJson = False,
) -> int:
    """Tell everything that is known of a message, or of all messages of a business key, in order of time.

    Parameters
    ----------
    id
        The message; may be repeated.
    key
        All messages of this business key.
    max
        At most so many messages, the first that were accepted.
    """
    if (id is None) == (key is None):
        raise ValueError("say which message: --id ID, or --key KEY")
    ids = [_number(text) for text in id or ()]
    if not 1 <= max <= 1000:
        raise ValueError("--max: from 1 to 1000")
    dsn = store_beside(dsn, lake)
    from ..session import check_installed

    check_installed()
    from ..trace import tracing

    found = tracing.trace(dsn, lake, topics=topic, ids=ids, key=key, most=max)
    if not found.events:
        what = f"message {', '.join(id or ())}" if key is None else f"message with the key {key}"
        raise NotFound(f"there is no {what}, as far as is known")
    if found.more:
        print(f"tarry pipeline: there are more than {max} messages; these are the first", file=sys.stderr)
    show((asdict(event) for event in found.events), as_json=as_json)
    return 0


def show(events: Iterable[Mapping[str, Any]], *, as_json: bool) -> None:
    """Prints a table for each message on a terminal, lines with tabs in a pipe, or lines of JSON."""
    if as_json:
        for event in events:
            shown = {**event, "id": str(event["id"]), "at": time_text(moment(event["at"]))}
            print(json_text({name: value for name, value in shown.items() if value is not None}))
        return
    if not sys.stdout.isatty():
        rows = ((event["id"], event["topic"], event["key"], *_cells(event)) for event in events)
        print_table(("id", "topic", "key", *_COLUMNS), rows)
        return
    for (id_, topic, key), life in groupby(events, lambda event: (event["id"], event["topic"], event["key"])):
        title = f"message {id_} of {topic}" + (f", key {key}" if key else "")
        print_table(_COLUMNS, map(_cells, life), title=title)


def _cells(event: Mapping[str, Any]) -> list[object]:
    """The cells of an event, in the order of `_COLUMNS`."""
    place = None if event["offset"] is None else f"queue {event['queue']}, offset {event['offset']}"
    held = None if event["held_ms"] is None else f"{event['held_ms']} ms"
    cells = [event[name] for name in ("what", "group", "client", "attempt", "reason")]
    return [time_text(moment(event["at"])), *cells, place, held]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 1 << 63):
        raise ValueError(f'--id: "{text}" is not an id: ids are decimal numbers, as publish answers them')
    return int(text)
