"""Builds the pipeline's tables from a store's own tables, row by row: small, slow, and independent of the tested code.

In between they are plain lists of dictionaries, so that a test can put a fault into what a real store wrote.
"""

from collections.abc import Callable
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from support.literal_tables import literal_frame, moment
from tarry.pipeline.audit.adjustments import OUTBOX, SEEKS, counted
from tarry.pipeline.audit.evidence import Evidence, look
from tarry.pipeline.schemas import FIRE_OUTCOMES, OUTCOMES, TABLES, Tables

Row = dict[str, Any]
Book = dict[str, list[Row]]
"""Rows by the name of their table."""

SCHEMAS = TABLES | {"seeks": SEEKS, "outbox": OUTBOX}

_CONTENT = (
    "m.`key`, m.ordering_key, m.tag, m.headers, m.content_type, m.body, m.accepted_at, m.deliver_at, m.expires_at"
)
_ENDS = " ".join(f"WHEN {number} THEN '{word}'" for number, word in enumerate(FIRE_OUTCOMES))
_SQL = {
    "messages": "SELECT t.name AS topic, t.id AS topic_id, m.queue_id, q.number AS queue, m.`offset`, m.id,"
    f" {_CONTENT}, m.streamed_at FROM message m JOIN queue q ON q.id = m.queue_id JOIN topic t ON t.id = q.topic_id",
    "timers": f"SELECT t.name AS topic, t.id AS topic_id, m.queue_id, m.id, m.due, {_CONTENT}"
    " FROM delay m JOIN topic t ON t.id = m.topic_id",
    "dead": "SELECT t.name AS topic, g.name AS `group`, m.group_id, m.id, m.dead_at, m.history, m.queue_id, m.`offset`,"
    f" {_CONTENT} FROM dead m JOIN consumer_group g ON g.id = m.group_id JOIN topic t ON t.id = g.topic_id",
    "cancelled": "SELECT t.name AS topic, t.id AS topic_id, m.id, m.`key`, m.accepted_at, m.deliver_at, m.cancelled_at,"
    " CASE m.reason WHEN 1 THEN 'suppressed' END AS reason, m.guard"
    " FROM cancelled m JOIN topic t ON t.id = m.topic_id",
    "fires": f"SELECT t.name AS topic, s.name AS schedule, f.schedule_id, f.fire_at, f.`at`, f.message_id,"
    f" CASE f.outcome {_ENDS} END AS outcome"
    " FROM fire f JOIN schedule s ON s.id = f.schedule_id JOIN topic t ON t.id = s.topic_id",
    "retries": "SELECT t.name AS topic, g.name AS `group`, m.group_id, m.id AS retry_id, m.id >> 21 AS due,"
    " m.message_queue_id, m.message_offset, m.message_id, m.attempt, m.history, m.failed_at, 0 AS parked"
    " FROM retry m JOIN consumer_group g ON g.id = m.group_id JOIN topic t ON t.id = g.topic_id"
    " UNION ALL SELECT t.name, g.name, m.group_id, 0, m.parked_at, m.queue_id, m.message_offset,"
    " m.message_id, m.attempt, m.history, NULL, 1"
    " FROM parked m JOIN consumer_group g ON g.id = m.group_id JOIN topic t ON t.id = g.topic_id",
    "returns": "SELECT t.name AS topic, g.name AS `group`, q.group_id, m.queue_id, m.`offset`, m.message_queue_id,"
    " m.message_offset, m.message_id, m.attempt, m.history, m.streamed_at, NULLIF(m.retry_id >> 21, 0) AS due"
    " FROM redelivery m"
    " JOIN queue q ON q.id = m.queue_id JOIN consumer_group g ON g.id = q.group_id JOIN topic t ON t.id = q.topic_id",
    "queues": "SELECT t.name AS topic, q.topic_id, q.id AS queue_id, q.number AS queue, q.group_id, q.next_offset,"
    " q.straight, q.holes, COALESCE(c.floor, 0) AS floor FROM queue q JOIN topic t ON t.id = q.topic_id"
    " LEFT JOIN cleaned c ON c.queue_id = q.id",
    "cursors": "SELECT t.name AS topic, g.name AS `group`, c.group_id, c.queue_id, c.origin, c.position, c.next_claim,"
    " c.next_delivery, c.acked, c.dead, c.retried, c.expired, c.skipped, c.parked, c.sought, c.redriven, c.cleared"
    " FROM `cursor` c JOIN consumer_group g ON g.id = c.group_id JOIN topic t ON t.id = g.topic_id",
    "tallies": "SELECT t.name AS topic, y.topic_id, SUM(y.scheduled) AS scheduled, SUM(y.cancelled) AS cancelled,"
    " SUM(y.replaced) AS replaced, SUM(y.suppressed) AS suppressed"
    " FROM tally y JOIN topic t ON t.id = y.topic_id GROUP BY t.name, y.topic_id",
    "seeks": "SELECT t.name AS topic, g.name AS `group`, s.group_id, s.queue_id, s.number, s.sought_at,"
    " s.position_before, s.position_after, s.released"
    " FROM seek s JOIN consumer_group g ON g.id = s.group_id JOIN topic t ON t.id = g.topic_id",
    "outbox": "SELECT t.name AS topic, t.id AS topic_id,"
    " (SELECT COUNT(*) FROM delay d WHERE d.topic_id = t.id AND d.uncounted = 1) AS uncounted,"
    " (SELECT COALESCE(SUM(o.scheduled), 0) FROM outbox_cancel o WHERE o.topic_id = t.id) AS scheduled,"
    " (SELECT COUNT(*) FROM outbox_cancel o WHERE o.topic_id = t.id AND o.replaced = 0) AS cancelled,"
    " (SELECT COUNT(*) FROM outbox_cancel o WHERE o.topic_id = t.id AND o.replaced = 1) AS replaced, 0 AS suppressed"
    " FROM topic t",
}
_CLAIM = (
    "SELECT t.name, g.name, c.group_id, c.queue_id, q.number, q.group_id, {number}, {claim}, c.client, c.`first`,"
    " c.size, c.claimed_at, {ended}, c.outcome, c.settled_at FROM {table} c JOIN consumer_group g ON g.id = c.group_id"
    " JOIN topic t ON t.id = g.topic_id JOIN queue q ON q.id = c.queue_id"
)


def read_book(rows: Callable[[str], list[tuple[Any, ...]]]) -> Book:
    """Reads all tables; `rows` runs a query, as `Tables.rows` of `support.stores` does."""
    book: Book = {}
    for name, sql in _SQL.items():
        fields = [field.name for field in SCHEMAS[name].fields]
        book[name] = [
            {field: _value(name, field, value) for field, value in zip(fields, row, strict=True)} for row in rows(sql)
        ]
    returns = {(row["queue_id"], row["offset"]): row for row in book["returns"]}
    claims = _CLAIM.format(number="c.number", claim="c.number", ended="NULL", table="claim")
    deliveries = _CLAIM.format(number="c.number", claim="c.claim", ended="c.ended_at", table="delivery")
    book["claims"] = [row for claim in rows(claims) for row in _handed(claim, returns)]
    book["deliveries"] = [row for claim in rows(deliveries) for row in _handed(claim, returns)]
    return book


def open_book(spark: SparkSession, book: Book) -> Tables:
    """The DataFrames of a book; a missing table is empty."""
    return Tables(**{name: _frame(spark, book, name) for name in TABLES})


@attrs.frozen
class LiteralBooks:
    """The seeks, the outbox and the letters of a book."""

    spark: SparkSession
    book: Book

    def seeks(self) -> DataFrame:
        return _frame(self.spark, self.book, "seeks")

    def outbox(self) -> DataFrame:
        return _frame(self.spark, self.book, "outbox")

    def letters(self) -> DataFrame:
        return counted(_frame(self.spark, self.book, "dead"))


def look_at(spark: SparkSession, book: Book) -> Evidence:
    """The audit's evidence from a book."""
    return look(open_book(spark, book), None, LiteralBooks(spark, book))


def _frame(spark: SparkSession, book: Book, name: str) -> DataFrame:
    return literal_frame(spark, SCHEMAS[name], book.get(name, []))


def _value(table: str, field: str, value: Any) -> Any:
    kind = SCHEMAS[table][field].dataType.typeName()
    if value is None:
        return None
    if kind == "timestamp":
        return moment(int(value))
    if kind == "string":
        return value.decode() if isinstance(value, bytes | bytearray) else str(value)
    if kind == "binary":
        return bytearray(value)
    return bool(value) if kind == "boolean" else int(value)


def _handed(claim: tuple[Any, ...], returns: dict[tuple[int, int], Row]) -> list[Row]:
    topic, group, group_id, queue_id, queue, back, number, name, client, first, size, claimed, ended, *bytes_ = claim
    outcomes, settled = (bytes(some) for some in bytes_)
    rows: list[Row] = []
    for place in range(size):
        source = returns.get((queue_id, first + place), {}) if back else {}
        word = OUTCOMES[outcomes[place]]
        at = 0 if word == "open" else int.from_bytes(settled[8 * place : 8 * place + 8], "big")
        rows.append(
            {
                "topic": topic.decode(),
                "group": group.decode(),
                "group_id": group_id,
                "queue_id": queue_id,
                "queue": queue,
                "number": number,
                "claim": name,
                "client": client.decode(),
                "offset": first + place,
                "message_queue_id": source.get("message_queue_id") if back else queue_id,
                "message_offset": source.get("message_offset") if back else first + place,
                "attempt": source.get("attempt") if back else 1,
                "history": source.get("history"),
                "outcome": word,
                "claimed_at": moment(claimed),
                "settled_at": moment(at) if at else None,
                "ended_at": None if ended is None else moment(ended),
            }
        )
    return rows
