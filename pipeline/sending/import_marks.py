"""Records which rows an import has brought: their marks, packed, one row of `idempotency` per transaction and part.

A mark is the 16 bytes that a row is known by; it belongs to one of `PARTS` parts, which depends on the row alone. The
marks that a transaction adds to a part have the part's next number in their key, from 0 on: of two runs at once the
second meets the number of the first, and looks again. This runs in Spark's workers, and uses neither Spark's session
nor trio.
"""

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field

from ...store.errors import DuplicateKey
from ...store.ports import Queries

PARTS = 64
"""Must not change: with another number the marks of earlier runs are not found. A multiple of the wheel's shards."""
SIZE = 16
"""Bytes of a mark."""
_PAGE = 50
"""Rows of a read: a few megabytes at the most."""
_BREAK = b"\xff"
"""A byte of no text: no name holds it, and no request's idempotency key begins with it."""


@define
class _Part:
    marks: set[bytes] = field(factory=set[bytes])
    numbers: int = 0
    """How many numbers are taken."""
    last: tuple[bytes, int] | None = None
    """The key of the last row, and when its window is over: another row under this key has another time."""


@define
class Marks:
    """The marks of one import, as one task knows them. After an error `forget` them; they are read again."""

    topic_id: int
    name: str
    _parts: dict[int, _Part] = field(factory=dict[int, _Part], init=False)
    _added: dict[int, Sequence[bytes]] = field(factory=dict[int, Sequence[bytes]], init=False)
    _expires_at: int = field(default=0, init=False)
    """When the window of the added marks is over."""

    async def look(self, tx: Queries, parts: Iterable[int], now: int) -> None:
        """Reads the marks of these parts unless known, and locks them up to the end of the transaction; forgets others.

        Raises `DuplicateKey` when another run, or the end of a window, came in between.
        """
        self._parts = {part: self._parts.get(part) or await self._read(tx, part, now) for part in sorted(set(parts))}
        ends = dict(part.last for part in self._parts.values() if part.last is not None)
        # Locked, so that the number after it is the next one for everybody.
        if ends and dict(await tx.fetch("idempotency.lock", tuple[bytes, int], self.topic_id, list(ends))) != ends:
            raise DuplicateKey("the marks of an earlier run are over")

    def has(self, part: int, mark: bytes) -> bool:
        """Whether a mark is known; `look` has read its part."""
        return mark in self._parts[part].marks

    async def add(self, tx: Queries, marks: Mapping[int, Sequence[bytes]], expires_at: int) -> None:
        """Writes marks, in the transaction of `look`. Raises `DuplicateKey` when another run was faster."""
        rows = [
            (self.topic_id, self._key(part, self._parts[part].numbers), b"", b"".join(some), expires_at)
            for part, some in sorted(marks.items())
        ]
        await tx.execute_many("idempotency.add", rows)
        self._added, self._expires_at = dict(marks), expires_at

    def landed(self) -> None:
        """Notes that the added marks are committed."""
        for number, some in self._added.items():
            part = self._parts[number]
            part.last = self._key(number, part.numbers), self._expires_at
            part.numbers += 1
            part.marks.update(some)
        self._added = {}

    def forget(self) -> None:
        self._parts, self._added = {}, {}

    async def _read(self, tx: Queries, part: int, now: int) -> _Part:
        """A part as it is in the table. Marks whose window is over do not count, but their numbers are taken."""
        found = _Part()
        begin, end = self._stem(part), self._stem(part) + _BREAK
        while rows := await tx.fetch("idempotency.between", tuple[bytes, bytes, int], self.topic_id, begin, end, _PAGE):
            for key, packed, expires_at in rows:
                if expires_at > now:
                    found.marks.update(packed[at : at + SIZE] for at in range(0, len(packed), SIZE))
                found.last = key, expires_at
                begin = key + b"\0"
            if len(rows) < _PAGE:
                break
        if found.last is not None:
            found.numbers = int(found.last[0].rpartition(b":")[2]) + 1
        return found

    def _stem(self, part: int) -> bytes:
        return b"%simport:%s%s%02d:" % (_BREAK, self.name.encode(), _BREAK, part)

    def _key(self, part: int, number: int) -> bytes:
        return self._stem(part) + b"%010d" % number
