"""`Outbox`: publish, cancel, ack, once and settle in the user's own transaction, over any DB-API cursor.

`OutboxCalls` is written once, as coroutines over a transaction of the store. `Outbox` drives them over a plain cursor;
in `aio.AsyncOutbox` they are awaited, over an asynchronous one.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator, Iterable
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NoReturn, TypeVar, Unpack

from attrs import evolve

from ...store.errors import DuplicateKey, NoSuchTable, StoreError
from ...store.groups.claim_ids import parse_claim
from ...store.ids import IdMaker
from ...store.records import ClaimKey
from ...store.stream import outbox as store
from ...store.stream import outbox_timers
from ...store.stream.placing import WrongQueue
from .. import spans
from ..bodies import Dumps
from ..coroutines import drive
from ..delivery import Delivery
from ..durations import Duration, milliseconds
from ..errors import BadRequest, LeaseLost, NotFound, TarryError, TooLate, Unavailable
from ..fronts import Direct, api_call
from ..processes import PerProcess
from ..records import Claim, Draft, Fields, Message, Named, Receipt, Timer, TimerFields, id_of
from ..timers import Mode
from . import guards, transactions
from .cursors import CursorTransaction
from .drafts import Limits, check_topic, entries
from .lending import Lender, cursor_of
from .settling import Connection, DoneBefore, NoCursor

T = TypeVar("T")
C = TypeVar("C")

_DATABASE = re.compile(r"[\x01-\uffff]{0,63}(?! )[\x01-\uffff]")
_ID = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class OutboxCalls(ABC, Generic[C]):
    """The calls of both fronts, with cursors of their kind.

    `database` has the service's tables, None: the cursor's own database; `limits` are those of the service's settings.
    `json` writes bodies, as that of `Tarry` does.
    """

    def __init__(self, database: str | None = None, *, limits: Limits | None = None, json: Dumps | None = None) -> None:
        if database is not None and not _DATABASE.fullmatch(database):
            raise ValueError(
                f"database: {database[:100]!r} is no name of a database: 1 to 64 characters, no space last"
            )
        self.database = database
        self._limits = limits or Limits()
        self._json = json
        self._ids = PerProcess(lambda: IdMaker(outbox=True, climbing=True))

    @abstractmethod
    def _tx(self, cursor: C) -> CursorTransaction:
        """The store's transaction over this cursor. Raises `BadRequest` for an object that has no cursor."""

    @api_call
    async def publish(self, cursor: C, topic: str, body: Any, **fields: Unpack[Fields]) -> Receipt:
        """Publishes a message when your transaction is committed: then at once, after `delay`, or at `deliver_at`.

        A delay runs from this call. Raises `NotFound` for an unknown topic, and `BadRequest` naming the bad field.
        """
        (receipt,) = await self._publish(cursor, topic, [Draft(body=body, **fields)])
        return receipt

    @api_call
    async def publish_many(self, cursor: C, topic: str, messages: Iterable[Draft | dict[str, Any]]) -> list[Receipt]:
        """Publishes up to 1000 drafts, or dicts of a draft's fields."""
        return await self._publish(cursor, topic, messages)

    async def _publish(self, cursor: C, topic: str, drafts: Iterable[Draft | dict[str, Any]]) -> list[Receipt]:
        tx = self._tx(cursor)
        check_topic(topic)
        with spans.sending(topic) as sent:
            checked = entries(sent.carrying(drafts), self._limits, self._json)
            if not checked:
                return []
            await transactions.demand(tx)
            work = store.publish(tx, self._ids.get(), topic, checked, self._limits.max_delay)
            # Until the commit every message is scheduled; those that are due are in the stream soon after it.
            receipts = [
                Receipt(str(one.id), topic, "scheduled", _EPOCH + timedelta(milliseconds=one.deliver_at))
                for one in await self._told(work, topic)
            ]
            return sent.done(receipts)

    @api_call
    async def cancel(
        self,
        cursor: C,
        *,
        id: Named | None = None,  # noqa: A002 - the contract's word
        topic: str | None = None,
        key: str | None = None,
    ) -> list[str]:
        """Cancels the message with an id, or all waiting messages of a key; returns the ids that are cancelled.

        With an id it raises `TooLate` if the message was handed to the stream, and `NotFound`. Until you commit
        nobody else can cancel, move or promote it.
        """
        tx = self._tx(cursor)
        await transactions.demand(tx)
        id_ = None if id is None else id_of(id)
        if id_ is not None and topic is None and key is None:
            return await self._cancel_one(tx, id_)
        if id_ is not None or topic is None or key is None:
            raise BadRequest("cancel takes an id, or a topic with a key")

        async def work() -> list[str]:
            ids = await store.labelled(tx, topic, key)
            verdicts = await store.cancel(tx, ids)
            return [str(i) for i, v in zip(ids, verdicts, strict=True) if v.result == "cancelled"]

        return await self._told(work(), topic)

    async def _cancel_one(self, tx: CursorTransaction, id_: str) -> list[str]:
        if not _ID.fullmatch(id_) or int(id_) >= 1 << 63:
            raise NotFound(f"there is no message {id_[:100]!r}")
        (verdict,) = await self._told(store.cancel(tx, [int(id_)]))
        if verdict.result == "too_late":
            raise TooLate(f"message {id_} was handed to the stream before")
        if verdict.result == "not_found":
            raise NotFound(f"there is no message {id_}, as far as this transaction sees")
        return [id_]

    @api_call
    async def set_timer(
        self,
        cursor: C,
        topic: str,
        key: str,
        body: Any,
        *,
        mode: Mode = "replace",
        max_wait: Duration | None = None,
        **fields: Unpack[TimerFields],
    ) -> Timer:
        """Sets the timer of a key when your transaction is committed; see `Tarry.set_timer`.

        Until then nobody else can set or cancel it, and a message of it that waits already is not promoted.
        """
        tx, draft = self._tx(cursor), Draft(body=body, key=key, **fields)
        with spans.sending(topic) as sent:
            draft = evolve(draft, headers=sent.carried(draft.headers))
            return sent.done(await self._arm(tx, topic, draft, mode, max_wait))

    async def _arm(
        self, tx: CursorTransaction, topic: str, draft: Draft, mode: Mode, max_wait: Duration | None
    ) -> Timer:
        check_topic(topic)
        (entry,) = entries([draft], self._limits, self._json)
        if draft.key is None:
            raise BadRequest("key: a timer has one")
        if draft.delay is None and draft.deliver_at is None:
            raise BadRequest("delay: say delay or deliver_at: a timer waits")
        if max_wait is not None and mode != "debounce":
            raise BadRequest('max_wait: it goes with mode="debounce"')
        longest = None if max_wait is None else milliseconds(max_wait, "max_wait")
        await transactions.demand(tx)
        work = outbox_timers.set_timer(
            tx, self._ids.get(), topic, draft.key, entry, self._limits.max_delay, mode=mode, longest=longest
        )
        armed = await self._told(work, topic)
        at = _EPOCH + timedelta(milliseconds=armed.deliver_at)
        replaced = None if armed.replaced is None else str(armed.replaced)
        return Timer(str(armed.id), draft.key, armed.revision, at, "scheduled", replaced)

    @api_call
    async def cancel_timer(self, cursor: C, topic: str, key: str) -> str:
        """Cancels the message of a key when your transaction is committed. Raises `TooLate`, `NotFound`."""
        tx = self._tx(cursor)
        check_topic(topic)
        await transactions.demand(tx)
        verdict = await self._told(outbox_timers.cancel_timer(tx, topic, key), topic)
        if verdict.result == "too_late":
            raise TooLate(f"the message of timer {key!r} was handed to the stream before")
        if verdict.result == "not_found":
            raise NotFound(f"topic {topic!r} has no timer {key!r}, as far as this transaction sees")
        return "cancelled"

    @api_call
    async def ack(self, cursor: C, message: Message, *, claim: Claim | str | None = None) -> None:
        """Settles a message of `consume` or `run`, or one of a `claim`. Raises `LeaseLost`: then roll back."""
        tx = self._tx(cursor)
        keys = _claim_keys(message, claim)
        await transactions.demand(tx)
        done = await self._told(store.ack(tx, keys, int(message.id)))
        if done == "lost":
            raise LeaseLost(f"message {message.id}: the lease is over, or it was given back; roll your work back")
        if done == "not_in_claim":
            raise NotFound(
                f"message {message.id} is not in this claim, as far as this transaction sees: "
                "begin the transaction after the message was received, or use READ COMMITTED"
            )

    @api_call
    async def once(self, cursor: C, message: Message, *, key: str | None = None, group: str | None = None) -> bool:
        """Whether this group does the work of this message for the first time; True in one committed transaction at
        most.

        `key` stands for the work in place of the message's id: a business key that several messages may share.
        """
        return await self._once(self._tx(cursor), message, key, group)

    async def _once(self, tx: CursorTransaction, message: Message, key: str | None, group: str | None) -> bool:
        name = group or (message.hold.claim.group if isinstance(message, Delivery) else None)
        if name is None:
            raise BadRequest("group: the message does not tell it; name the consumer group, group=...")
        work = message.id if key is None else key
        for field, text in (("group", name), ("key", work)):
            if not 0 < len(text.encode()) <= 255:
                raise BadRequest(f"{field}: it has {len(text.encode())} bytes, and may have 1 to 255")
        await transactions.demand(tx)
        try:
            return await guards.guard(tx, message.topic, name, work)
        except NoSuchTable as error:
            raise NotFound("there is no table tarry_once in this database: run outbox.prepare(cursor) once") from error

    async def _begin(self, tx: CursorTransaction, message: Message, key: str | None, group: str | None) -> bool:
        await transactions.begin(tx)
        return await self._once(tx, message, key, group)

    @api_call
    async def prepare(self, cursor: C) -> None:
        """Makes the table `tarry_once` in your current database, if it is missing. MySQL commits when it makes it."""
        await guards.prepare(self._tx(cursor))

    @api_call
    async def forget(self, cursor: C, older_than: Duration = "28d", limit: int = 10_000) -> int:
        """Removes guards of `once` older than `older_than`, `limit` at most; returns how many. Commit, and call it
        again.

        Keep them for longer than a message may come again: its ladder, and the days until an operator redrives it.
        """
        tx = self._tx(cursor)
        return await guards.forget(tx, await tx.now() - milliseconds(older_than, "older_than"), limit)

    async def _told(self, work: Awaitable[T], topic: str = "") -> T:
        """Awaits work of the store, and raises its errors as the client's; those of the driver pass as they are."""
        try:
            return await work
        except StoreError as error:
            self._raise(error, topic)

    def _raise(self, error: StoreError, topic: str) -> NoReturn:
        if isinstance(error, NoSuchTable):
            where = "the cursor's database" if self.database is None else f"database {self.database!r}"
            text = f"{where} has no tables of Tarry: say where they are, Outbox(database=...) ({error})"
            raise NotFound(text) from error
        if isinstance(error, store.TopicMissing):
            raise NotFound(
                f"there is no topic {topic!r}, and an outbox makes none, since that would lock what others need: "
                f"make it once, PUT /v1/topics/{topic}"
            ) from error
        if isinstance(error, WrongQueue):
            raise BadRequest(f"queue: {error}") from error
        if isinstance(error, store.TooFar):
            raise BadRequest(f"deliver_at: {error}") from error
        if isinstance(error, store.Expired):
            raise BadRequest(f"expires_at: {error}") from error
        if isinstance(error, DuplicateKey):
            raise Unavailable(str(error)) from error
        raise TarryError(str(error)) from error


class Outbox(OutboxCalls[Lender], Direct):
    """The outbox over DB-API cursors. One may serve all threads; it keeps no state of a transaction.

    A `Session` or a `Connection` of SQLAlchemy may take the place of a cursor, with the transaction that is open on it.

    Nothing here commits, except for `settle` and `prepare`. Errors of the driver, deadlocks included, pass as they are.
    """

    def _tx(self, cursor: Lender) -> CursorTransaction:
        return CursorTransaction(cursor_of(cursor), self.database)

    @contextmanager
    def settle(
        self,
        connection: Connection,
        message: Message,
        *,
        key: str | None = None,
        group: str | None = None,
        claim: Claim | str | None = None,
    ) -> Generator[Any, None, None]:
        """`once`, your work and `ack` in one transaction: the block's end commits it, and raising rolls it back.

        It gives a cursor of the connection. If the work was done before, it gives a falsy object instead: using that
        ends the block, and the message is acked. Open changes on the connection are committed or rolled back with it.
        """
        if not hasattr(connection, "cursor"):
            raise BadRequest(
                f"connection: one of type {type(connection).__name__} has no cursor: give the driver's connection, or"
                " call once and ack with your Session in a transaction of your own"
            )
        cursor = connection.cursor()
        try:
            first = drive(self._begin(self._tx(cursor), message, key, group))
            with suppress(DoneBefore):
                yield cursor if first else NoCursor()
            self.ack(cursor, message, claim=claim)
            connection.commit()
        except BaseException:
            with suppress(Exception):  # a lost connection has rolled back; the first error is worth more
                connection.rollback()
            raise
        finally:
            with suppress(Exception):
                cursor.close()


def _claim_keys(message: Message, claim: Claim | str | None) -> tuple[ClaimKey, ...]:
    if claim is None and isinstance(message, Delivery):
        claim = message.hold.claim
    if claim is None:
        raise BadRequest("claim: the message does not tell it; name the claim that holds it, claim=...")
    keys = parse_claim(claim if isinstance(claim, str) else claim.id)
    if not keys or not _ID.fullmatch(message.id):
        raise NotFound("there is no such claim")
    return keys
