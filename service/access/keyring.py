"""The keys that a server knows: read anew every four seconds, and found by their digests.

A key that was made or revoked is noted within 5 s. While the store is away the keys that are known hold, and of others
nobody can tell: `Unavailable`.
"""

import hmac
from collections.abc import Callable

import structlog
import trio
from attrs import define, field

from ...store.errors import Unavailable
from ...store.operating.keys import all_keys
from ...store.store import Store
from .scopes import ADMIN, Scopes
from .tokens import digest, handle

EVERY = 4
"""Seconds between two looks at the store."""
_STALE = 5.0
"""Seconds after which a key that is not known may have been made meanwhile."""

log = structlog.get_logger()


@define(eq=False)
class Holder:
    """Somebody who may ask: a key. Or everybody, where no key is asked for: then the name is empty."""

    name: str
    scopes: Scopes
    digest: bytes = field(default=b"", repr=False)
    revoked: bool = field(default=False, init=False)
    waiting: set[Callable[[], None]] = field(factory=set[Callable[[], None]], init=False)
    """What is called when it is revoked: long polls end."""

    def revoke(self) -> None:
        """It may ask no more, and waits no longer."""
        self.revoked = True
        for end in list(self.waiting):
            end()


NOBODY = Holder("", Scopes(()))
"""Asks for what needs no key."""


class NoKey(Exception):
    """A key is asked for, and this is none that holds; the text says so."""


class Keyring:
    """`find` says who asks."""

    def __init__(self, store: Store, *, always: bool) -> None:
        """`always`: a key is asked for even where there never was one."""
        self._store = store
        self._holders: dict[bytes, Holder] = {}
        self._handles: dict[bytes, Holder] = {}
        """The same, by what sessions name them."""
        self.anybody: Holder | None = None if always else Holder("", Scopes([ADMIN]))
        """Who asks where no key is asked for; None where one is."""
        self.there: bool = False
        """There is a key, or was one."""
        self._read_at = -1.0

    @property
    def names(self) -> set[str]:
        """Of the keys that hold."""
        return {holder.name for holder in self._holders.values()}

    async def refresh(self) -> None:
        """Reads them anew."""
        began = trio.current_time()
        keys = await self._store.read(all_keys)
        holding = {key.digest: key for key in keys if key.revoked_at is None}
        for gone in self._holders.keys() - holding.keys():
            holder = self._holders.pop(gone)
            self._handles.pop(handle(gone), None)
            log.info("key_revoked", key=holder.name)
            holder.revoke()
        for new in holding.keys() - self._holders.keys():
            key = holding[new]
            self._holders[new] = self._handles[handle(new)] = Holder(key.name, Scopes(key.scopes), new)
        self.there = bool(keys)
        if self.there and self.anybody is not None:
            log.info("keys_asked_for", keys=len(holding))
            self.anybody.revoke()
            self.anybody = None
        self._read_at = began

    def find(self, token: bytes | None) -> Holder:
        """Who asks with this text for a key. Raises `NoKey`, and `Unavailable` where nobody can tell."""
        if self.anybody is not None:
            return self.anybody
        if token is None:
            raise NoKey("send a key, as Authorization: Bearer KEY")
        asked = digest(token)
        holder = self._holders.get(asked)
        if holder is not None and hmac.compare_digest(holder.digest, asked):
            return holder
        raise self._unknown()

    def of_handle(self, name: bytes) -> Holder:
        """Whose session names its key like this. Raises `NoKey`, and `Unavailable` where nobody can tell."""
        holder = self._handles.get(name)
        if holder is None:
            raise self._unknown()
        return holder

    def _unknown(self) -> NoKey | Unavailable:
        if trio.current_time() - self._read_at > _STALE:
            return Unavailable("the key is not known, and the store, where keys are, is away")
        return NoKey("there is no such key, or it was revoked")
