"""How each table is kept in the store: the integer key that its pages go by, and where its columns come from."""

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from ...store.content import Content
from ..schemas import FIRE_OUTCOMES, SUPPRESSED


@frozen
class Shape:
    """A table of the store. SQL here is read by SQLite, MySQL and MariaDB alike."""

    table: str
    key: str
    dense: bool
    """Whether nearly every key of a range is there: then pages are cut without looking at it."""
    columns: Mapping[str, str]
    """The store's expressions, by our columns."""
    heavy: tuple[str, ...] = ()
    """Our columns that make rows large."""
    where: str = ""
    """The condition of rows that count."""
    owner: str = ""
    """The column that `Span.owners` goes by."""

    def select(
        self, names: Iterable[str], conditions: Sequence[str], first: int, last: int, *, also: str = "", limit: int = 0
    ) -> str:
        """The statement for our columns of the rows whose key is in [first, last), in its order; `also` is one more
        expression.

        It has no text of users: names are ours, conditions hold integers and hexadecimal literals.
        """
        shown = ", ".join([*(f"{self.columns[name]} AS `{name}`" for name in names), *([also] if also else [])])
        where = " AND ".join([*conditions, f"{self.key} >= {first}", f"{self.key} < {last}"])
        limited = f" LIMIT {limit}" if limit else ""
        return f"SELECT {shown} FROM `{self.table}` WHERE {where} ORDER BY {self.key}{limited}"  # noqa: S608


def _same(*names: str) -> dict[str, str]:
    """Columns that have the same name in the store."""
    return {name: f"`{name}`" for name in names}


_CONTENT = _same(*Content.__struct_fields__)


def _word(text: str) -> str:
    """A text as bytes, as the texts of the store are."""
    return f"X'{text.encode().hex()}'"


_FIRE_ENDS = " ".join(f"WHEN {number} THEN {_word(word)}" for number, word in enumerate(FIRE_OUTCOMES))
_LOG = _same("number", "client", "first", "size", "claimed_at", "outcome", "settled_at")

SHAPES = {
    "message": Shape(
        "message",
        "`offset`",
        True,
        {"id": "id", **_same("offset", "streamed_at"), **_CONTENT},
        ("body", "headers"),
        "id >= 0",  # a tombstone closes a hole, and is no message
    ),
    "redelivery": Shape(
        "redelivery",
        "`offset`",
        True,
        {
            **_same("offset", "message_queue_id", "message_offset", "message_id", "attempt", "history", "streamed_at"),
            "due": "NULLIF(retry_id >> 21, 0)",
        },
        ("history",),
    ),
    "delivery": Shape("delivery", "number", True, {**_LOG, **_same("claim", "ended_at")}, ("size",)),
    "claim": Shape("claim", "number", False, {**_LOG, "claim": "number"}, ("size",)),
    "dead": Shape(
        "dead",
        "id",
        False,
        _same("id", "dead_at", "history", "queue_id", "offset") | _CONTENT,
        ("body", "headers", "history"),
    ),
    "delay": Shape(
        "delay",
        "id",
        False,
        _same("topic_id", "queue_id", "id", "due") | _CONTENT,
        ("body", "headers"),
        owner="topic_id",
    ),
    "cancelled": Shape(
        "cancelled",
        "id",
        False,
        {
            **_same("topic_id", "id", "key", "accepted_at", "deliver_at", "cancelled_at", "guard"),
            "reason": f"CASE reason WHEN 1 THEN {_word(SUPPRESSED)} END",
        },
        owner="topic_id",
    ),
    "fire": Shape(
        "fire",
        "`at`",
        False,
        {
            **_same("schedule_id", "fire_at", "at", "message_id"),
            "outcome": f"CASE outcome {_FIRE_ENDS} ELSE {_word('other')} END",
        },
        owner="schedule_id",
    ),
    "retry": Shape(
        "retry",
        "id",
        False,
        {
            **_same("group_id", "message_queue_id", "message_offset", "message_id", "attempt", "history", "failed_at"),
            "retry_id": "id",
            "due": "id >> 21",
            "parked": "0",
        },
        ("history",),
        owner="group_id",
    ),
    "parked": Shape(
        "parked",
        "message_offset",
        False,
        {
            **_same("group_id", "message_offset", "message_id", "attempt", "history"),
            "retry_id": "0",
            "due": "parked_at",
            "message_queue_id": "queue_id",
            "failed_at": "NULLIF(parked_at, parked_at)",
            "parked": "1",
        },
        ("history",),
        owner="group_id",
    ),
}
"""The shapes, by the table's name in the store."""

SOURCES = {
    "messages": ("message",),
    "returns": ("redelivery",),
    "deliveries": ("delivery",),
    "claims": ("claim",),
    "dead": ("dead",),
    "timers": ("delay",),
    "cancelled": ("cancelled",),
    "fires": ("fire",),
    "retries": ("retry", "parked"),
}
"""The store's tables that a table of the pipeline is made of."""

TIMES = {
    "messages": "streamed_at",
    "deliveries": "ended_at",
    "claims": "claimed_at",
    "returns": "streamed_at",
    "dead": "dead_at",
    "timers": "due",
    "cancelled": "cancelled_at",
    "fires": "at",
}
"""The time of a table that ranges go by; the column has the same name in the store."""
