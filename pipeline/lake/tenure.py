"""What an archiver keeps in the store: that it is the only one, which lake is the store's, and how far that has come.

Tiny statements, each committed by itself, beside whatever the server does. Retention deletes nothing that is not
archived as long as the row of `archived` is there whose ids are both 0.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType

from ..errors import InUse, LakeError, PipelineError
from ..link import Link

_LEASE = 30_000
"""Milliseconds: how long the place of an archiver that was killed stays taken."""
_RENEW = 5.0
"""Seconds."""
_NAME, _LAKE = b"archive", b"lake"
_KNOWN = b"lake:"
"""And the name of a lake that is, was, or was to be the store's."""
_TOGETHER = 500


class Tenure:
    """`with Tenure(dsn, holder)`: the one archiver of this store. Raises `InUse` when there is another."""

    def __init__(self, dsn: str, holder: str) -> None:
        self._dsn, self._holder = dsn, holder.encode()
        self._lock = threading.Lock()
        self._link = Link(dsn, write=True)
        self._over = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="tarry-archive-lease", daemon=True)

    def __enter__(self) -> "Tenure":
        now = self._link.now()
        if not self._take(now) and not self._first(now):
            rows = self._link.rows("SELECT holder, lease_until FROM lease WHERE name = ?", (_NAME,))
            self._link.close()
            who = rows[0][0].decode("utf-8", "replace") if rows else "another"
            left = max(1, (int(rows[0][1]) - now + 999) // 1000) if rows else 1
            raise InUse(f"{who} is archiving this store; if it was killed, its place is free in {left} s")
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._renewer.join()
        with suppress(PipelineError):
            self._change("UPDATE lease SET lease_until = 0 WHERE name = ? AND holder = ?", (_NAME, self._holder))
        self._link.close()

    def _change(self, sql: str, values: tuple[object, ...]) -> int:
        with self._lock:
            return self._link.change(sql, values)

    def _take(self, now: int) -> int:
        sql = "UPDATE lease SET holder = ?, epoch = epoch + 1, lease_until = ? WHERE name = ? AND lease_until <= ?"
        return self._change(sql, (self._holder, now + _LEASE, _NAME, now))

    def _first(self, now: int) -> int:
        return self._change(
            f"{self._insert} lease (name, holder, epoch, lease_until) VALUES (?, ?, 1, ?)",
            (_NAME, self._holder, now + _LEASE),
        )

    @property
    def _insert(self) -> str:
        return "INSERT IGNORE INTO" if self._link.kind == "mysql" else "INSERT OR IGNORE INTO"

    def _renew(self) -> None:
        while not self._over.wait(_RENEW):
            with suppress(PipelineError):  # the check before the next commit tells
                self.extend()

    def extend(self) -> None:
        """The lease begins anew; the thread of this object does it every few seconds."""
        with self._lock:
            until = self._link.now() + _LEASE
            self._link.change(
                "UPDATE lease SET lease_until = ? WHERE name = ? AND holder = ?", (until, _NAME, self._holder)
            )

    def check(self) -> None:
        """Before a commit: raises `InUse` when another has taken the place, as after a long pause of this process."""
        with self._lock:
            rows = self._link.rows("SELECT holder, lease_until FROM lease WHERE name = ?", (_NAME,))
            now = self._link.now()
        if not rows or bytes(rows[0][0]) != self._holder or int(rows[0][1]) <= now:
            raise InUse("this archiver was away for too long, and its place may be another's; run it again")

    def admit(self, lake: str, *, holds: bool, anew: bool) -> bool:
        """Whether this lake is the store's, or may be: True when it is, or there was none; False when the store is to
        be moved to it, by `adopt`, once something is written there. Until then the lake before is the store's.

        `holds`: the lake has something in it already. Raises `LakeError` for another lake, unless `anew`; then for one
        that is not empty, unless it is, or was to be, this store's.
        """
        with self._lock:
            current = self._lake()
            if current == lake:
                return True
            known = bool(self._link.rows("SELECT 1 FROM lease WHERE name = ?", (_KNOWN + lake.encode(),)))
            if not anew:
                if known:
                    raise LakeError(
                        "the store is archived to another lake by now: name that one, or go back to this one with"
                        " --new-lake; what retention took meanwhile is in the other only"
                    )
                if current is not None or holds:
                    raise LakeError(
                        "the store was archived to another lake, or the lake holds another store: name the right one,"
                        " or begin anew in an empty one with --new-lake"
                    )
            elif holds and not known:
                raise LakeError(
                    "--new-lake wants an empty lake, or one that was this store's before: this one holds rows already"
                )
            self._note(_KNOWN + lake.encode(), lake)
            return current is None

    def adopt(self, lake: str) -> None:
        """From now on this is the store's lake; how far it has come is to be recorded next. Killed on the way,
        retention waits, and the lake before is still the store's."""
        with self._lock:
            current = self._lake()
            if current is None:
                self._note(_LAKE, lake)
            elif current != lake:
                self._note(_KNOWN + current.encode(), current)  # of a store that was archived before these were noted
                self._link.change("UPDATE archived SET upto = 0 WHERE group_id = 0 AND queue_id = 0")
                self._link.change("DELETE FROM archived WHERE NOT (group_id = 0 AND queue_id = 0)")
                self._link.change("UPDATE lease SET holder = ? WHERE name = ?", (lake.encode(), _LAKE))

    def _lake(self) -> str | None:
        rows = self._link.rows("SELECT holder FROM lease WHERE name = ?", (_LAKE,))
        return bytes(rows[0][0]).decode() if rows else None

    def _note(self, name: bytes, lake: str) -> None:
        sql = f"{self._insert} lease (name, holder, epoch, lease_until) VALUES (?, ?, 0, 0)"
        self._link.change(sql, (name, lake.encode()))

    def record(self, table: str, marks: Mapping[str, int]) -> None:
        """Notes in the store how far the lake has come; a mark never goes back."""
        rows = [(*_ids(table, mark), position) for mark, position in marks.items()]
        ending = (
            "ON DUPLICATE KEY UPDATE upto = GREATEST(upto, VALUES(upto))"
            if self._link.kind == "mysql"
            else "ON CONFLICT (queue_id, group_id) DO UPDATE SET upto = max(upto, excluded.upto)"
        )
        for at in range(0, len(rows), _TOGETHER):
            some = rows[at : at + _TOGETHER]
            places = ", ".join(["(?, ?, ?)"] * len(some))
            sql = f"INSERT INTO archived (group_id, queue_id, upto) VALUES {places} {ending}"  # noqa: S608  # of marks
            self._change(sql, tuple(value for row in some for value in row))

    def switch_on(self) -> None:
        """From now on retention keeps what is not archived."""
        self.record("", {"": 0})


def archived_by(link: Link) -> tuple[str, int] | None:
    """The lake that the store is archived to, and the time up to which what goes by time is archived for good."""
    lake = link.rows("SELECT holder FROM lease WHERE name = ?", (_LAKE,))
    upto = link.rows("SELECT upto FROM archived WHERE group_id = 0 AND queue_id = 0")
    return (bytes(lake[0][0]).decode(), int(upto[0][0])) if lake and upto else None


def switch_off(dsn: str) -> bool:
    """Retention no longer waits for the archive; whether it did."""
    with Link(dsn, write=True) as link:
        return bool(link.change("DELETE FROM archived WHERE group_id = 0 AND queue_id = 0"))


def _ids(table: str, mark: str) -> tuple[int, int]:
    """(group, queue) as `archived` has it."""
    if table == "messages":
        return 0, int(mark)
    if table == "deliveries":
        group_id, _, queue_id = mark.partition(":")
        return int(group_id), int(queue_id)
    return 0, 0
