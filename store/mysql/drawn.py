"""Offsets that are drawn in the flight of the COMMIT: its statements can refer to them, its answers contain them.

A draw leaves the first of its offsets in LAST_INSERT_ID(), until the next draw.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from ..ports import Offsets, Transaction, Value
from .literals import Sql
from .rows import Answer
from .statements import bind, statement

_FIRST = "IF(ROW_COUNT()>0,LAST_INSERT_ID(),NULL)"
"""NULL, which the column refuses, when the draw before it found no row or failed."""


@define
class Drawn(Offsets):
    """The offsets of rows to append, each of which begins with an id and a nonce."""

    _rows: Mapping[int, Sequence[Sequence[Value]]]
    """By the id of their queue."""
    _begins: dict[int, int]
    """The first offset of each queue whose offsets are known, by its id."""
    _places: dict[int, int] = field(factory=dict[int, int], init=False)
    """The index of the statement in the flight that draws for a queue, by its id."""

    def begin(self, queue_id: int) -> int:
        return self._begins[queue_id]

    def written(self, text: Sequence[bytes | tuple[int, int]]) -> Any:
        """An SQL expression of a text with offsets in it, for a statement after `statements`."""
        return Sql(f"CONCAT({','.join([self._piece(piece) for piece in text])})")

    def statements(self, query: str, straight: bool, *, behind: int, room: int) -> list[bytes]:
        """The statements that draw and insert, for a flight in which they come after `behind` others. If one draw
        fails, nothing after it is executed."""
        prepared, _ = statement(query)
        flight: list[bytes] = []
        for queue_id, begin in self._begins.items():
            known = [(queue_id, begin + number, *row) for number, row in enumerate(self._rows[queue_id])]
            flight += prepared.bind_many(known, max_bytes=room)
        for queue_id in (own := sorted(self._rows.keys() - self._begins)):
            rows = self._rows[queue_id]
            self._places[queue_id] = behind + len(flight)
            flight.append(bind("queue.draw", (len(rows), len(rows) if straight else 0, queue_id)))
            drawn = [
                (queue_id, Sql(f"LAST_INSERT_ID()+{number:d}" if number else _FIRST), *row)
                for number, row in enumerate(rows)
            ]
            flight += prepared.bind_many(drawn, max_bytes=room)
            if len(own) > 1:
                flight.append(b"SET @begin_%d = LAST_INSERT_ID()" % queue_id)
        return flight

    def hear(self, answers: Sequence[Answer]) -> None:
        """Takes the offsets from the answers to the flight."""
        for queue_id, place in self._places.items():
            self._begins[queue_id] = answers[place].last_insert_id
        self._places.clear()

    async def lacks_queues(self, tx: Transaction) -> bool:
        """Whether one of the queues has been removed."""
        return len(await tx.fetch("queue.ends", tuple[int, int], sorted(self._rows))) < len(self._rows)

    async def find(self, tx: Transaction) -> bool:
        """Finds the offsets of the rows in the stream, since the answers are lost; returns False when one of the rows
        is gone already."""
        firsts = {queue_id: self._rows[queue_id][0] for queue_id in self._places}
        if firsts:
            ids = [first[0] for first in firsts.values()]
            found = await tx.fetch("message.places", tuple[int, int, int], ids)
            self._begins |= {q: offset for q, offset, nonce in found if q in firsts and firsts[q][1] == nonce}
        return self._rows.keys() == self._begins.keys()

    def _piece(self, piece: bytes | tuple[int, int]) -> str:
        if isinstance(piece, bytes):
            return f"x'{piece.hex()}'"
        queue_id, number = piece
        if queue_id in self._begins:
            return str(self._begins[queue_id] + number)
        return f"{'LAST_INSERT_ID()' if len(self._places) == 1 else f'@begin_{queue_id}'}+{number}"
