"""The keys that a server knows: reads them every four seconds, and finds them by their digests.

A key that is created or revoked takes effect within 5 s. While the store is away the known keys stay valid; whether
another key exists cannot be told, which is `Unavailable`.
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
"""Seconds between two reads of the keys."""
_STALE = 5.0
"""Seconds after the last read, after which an unknown key may have been created meanwhile."""

log = structlog.get_logger()


@define(eq=False)
class Holder:
    """The holder of a key; or everybody where no key is required, with an empty name."""

    name: str
    scopes: Scopes
    digest: bytes = field(default=b"", repr=False)
    revoked: bool = field(default=False, init=False)
    waiting: set[Callable[[], None]] = field(factory=set[Callable[[], None]], init=False)
    """Functions that are called when the key is revoked, which end long polls."""

    def revoke(self) -> None:
        """Marks the key as revoked, and ends what waits for its holder."""
        self.revoked = True
        for end in list(self.waiting):
            end()


NOBODY = Holder("", Scopes(()))
"""The holder for operations that need no key."""


class NoKey(Exception):
    """A key is required, and none that is valid was given; the text says so."""


class Keyring:
    """The keys in memory; `find` tells the holder of a key."""

    def __init__(self, store: Store, *, always: bool) -> None:
        """`always`: a key is required even if none was ever created."""
        self._store = store
        self._holders: dict[bytes, Holder] = {}
        self._handles: dict[bytes, Holder] = {}
        """The same holders by the handles that sessions name."""
        self.anybody: Holder | None = None if always else Holder("", Scopes([ADMIN]))
        """The holder while no key is required; None if one is."""
        self.there: bool = False
        """Whether there is a key, or ever was one."""
        self._read_at = -1.0

    @property
    def names(self) -> set[str]:
        return {holder.name for holder in self._holders.values()}

    async def refresh(self) -> None:
        """Reads the keys from the store; revokes holders whose keys are gone."""
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
        """The holder of the key with this text. Raises `NoKey`, or `Unavailable` if the store cannot tell."""
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
        """The holder of the key with this handle. Raises `NoKey`, or `Unavailable` if the store cannot tell."""
        holder = self._handles.get(name)
        if holder is None:
            raise self._unknown()
        return holder

    def _unknown(self) -> NoKey | Unavailable:
        if trio.current_time() - self._read_at > _STALE:
            return Unavailable("the key is not known, and the store, where keys are, is away")
        return NoKey("there is no such key, or it was revoked")
