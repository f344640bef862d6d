"""What an archiver keeps in the store: that it is the only one, which lake is the store's, and how far that has come.

Tiny statements, each committed by itself, beside whatever the server does. Retention deletes nothing that is not
archived as long as the row of `archived` is there whose ids are both 0.
"""

import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from uuid import uuid4

from ...store.cleaning.retention import FIRES
from ...store.leases import LAKE
from ..errors import InUse, LakeError, PipelineError
from ..store_connection import StoreConnection, text_of

_LEASE = 30_000
"""Milliseconds: how long the place of an archiver that was killed stays taken."""
_RENEW = 5.0
"""Seconds."""
_NAME, _LAKE = b"archive", LAKE.encode()
_KNOWN = b"lake:"
"""And the name of a lake that is, was, or was to be the store's."""


class ArchiverLease:
    """`with ArchiverLease(dsn)`: the one archiver of this store. Raises `InUse` when there is another."""

    def __init__(self, dsn: str, holder: str = "") -> None:
        """`holder` is the archiver's name; else one for this process is made."""
        self._holder = (holder or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}").encode()
        self._lock = threading.Lock()
        self._connection = StoreConnection(dsn, write=True)
        self._over = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="tarry-archive-lease", daemon=True)

    def __enter__(self) -> "ArchiverLease":
        now = self._connection.now()
        taken = self._connection.execute("lease.acquire", self._holder, now + _LEASE, _NAME, now)
        if not taken and not self._connection.execute_many("lease.add", [(_NAME, self._holder, 1, now + _LEASE)]):
            (other,) = self._connection.fetch("lease.find", _NAME)
            self._connection.close()
            left = max(1, (other["lease_until"] - now + 999) // 1000)
            who = text_of(other["holder"])
            raise InUse(f"{who} is archiving this store; if it was killed, its place is free in {left} s")
        self._renewer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._renewer.join()
        with suppress(PipelineError):
            self._connection.execute("lease.extend", 0, _NAME, self._holder)
        self._connection.close()

    def _renew(self) -> None:
        while not self._over.wait(_RENEW):
            with suppress(PipelineError):  # the check before the next commit tells
                self.extend()

    def extend(self) -> None:
        """The lease begins anew; the thread of this object does it every few seconds."""
        with self._lock:
            self._connection.execute("lease.extend", self._connection.now() + _LEASE, _NAME, self._holder)

    def check(self) -> None:
        """Before a commit: raises `InUse` when another has taken the place, as after a long pause of this process."""
        with self._lock:
            found = self._connection.fetch("lease.find", _NAME)
            now = self._connection.now()
        if not any(row["holder"] == self._holder and row["lease_until"] > now for row in found):
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
            known = bool(self._connection.fetch("lease.find", _KNOWN + lake.encode()))
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
                self._connection.execute("archived.begin_anew")
                self._connection.execute("archived.clear")
                self._connection.execute("lease.set", lake.encode(), _LAKE)

    def _lake(self) -> str | None:
        return next((text_of(row["holder"]) for row in self._connection.fetch("lease.find", _LAKE)), None)

    def _note(self, name: bytes, lake: str) -> None:
        self._connection.execute_many("lease.add", [(name, lake.encode(), 0, 0)])

    def record(self, table: str, marks: Mapping[str, int]) -> None:
        """Notes in the store how far the lake has come; a mark never goes back."""
        if marks:
            with self._lock:
                self._connection.execute_many(
                    "archived.record", [(*_ids(table, mark), upto) for mark, upto in marks.items()]
                )

    def switch_on(self) -> None:
        """From now on retention keeps what is not archived."""
        self.record("", {"": 0})


def archived_by(connection: StoreConnection) -> tuple[str, int] | None:
    """The lake that the store is archived to, and the time up to which what goes by time is archived for good."""
    lake, upto = connection.fetch("lease.find", _LAKE), connection.fetch("archived.find", 0)
    return (text_of(lake[0]["holder"]), upto[0]["upto"]) if lake and upto else None


def switch_off(dsn: str) -> bool:
    """Retention no longer waits for the archive; whether it did."""
    with StoreConnection(dsn, write=True) as connection:
        return bool(connection.execute("archived.forget", 0, 0))


def _ids(table: str, mark: str) -> tuple[int, int]:
    """(group, queue) as `archived` has it."""
    if table == "messages":
        return 0, int(mark)
    if table == "deliveries":
        group_id, _, queue_id = mark.partition(":")
        return int(group_id), int(queue_id)
    return FIRES if table == "fires" else (0, 0)
