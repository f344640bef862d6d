"""Sessions of people at a browser: a key, sealed into a cookie, which any server of the store can open.

None is kept anywhere while it lasts. The seal of a session comes from the digest of its key, which all servers on the
store know; what is sealed is the text of the key, which none of them does. So whoever reads the store can make no
session, whoever has a cookie cannot make it last longer, and a session ends with its key, at every server. One that is
signed out is written down until its time is over, and looked for there every few seconds while it is used.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING

import trio
from attrs import define, field, frozen

from ...store.errors import DuplicateKey, Unavailable
from ...store.operating import ended_sessions
from ...store.store import Store
from ..clock import Clock
from .keyring import Holder, Keyring, NoKey
from .tokens import HANDLE, digest, handle

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

LASTS = 12 * 3_600_000
"""Milliseconds."""
_NONCE = 12
_TIME = 8
_LONGEST = 512
"""Characters of a cookie; one of ours has fewer."""
_EVERY = 3.0
"""Seconds between two looks whether a session was signed out at another server."""
_MOST = 10_000
"""Sessions of which it is remembered what the last look has found."""
_NEVER = float("inf")
_OVER = "the session is over; sign in with a key"


@frozen
class Session:
    """Who asks, and what proves that a page of ours does."""

    holder: Holder
    until: int
    """Unix milliseconds."""
    csrf: str
    """Sent in a header with each write: only a page of this server can read it."""
    id: bytes
    """No other has it."""


@define(eq=False)
class Sessions:
    """`begin` makes the text of a cookie, `find` says whose it is, `end` that it is nobody's any more."""

    _keyring: Keyring
    _clock: Clock
    _store: Store
    _looked: OrderedDict[bytes, float] = field(factory=OrderedDict[bytes, float], init=False)
    """By session: when it was found to go on; never again for one that is over."""

    def begin(self, token: bytes) -> tuple[str, Session]:
        """A session of this key. Raises `NoKey`, and `Unavailable` where nobody can tell."""
        holder = self._keyring.find(token)
        name, nonce = handle(holder.digest), secrets.token_bytes(_NONCE)
        until = self._clock.now() + LASTS
        sealed = _cipher(holder).encrypt(nonce, until.to_bytes(_TIME, "big") + token, name)
        text = urlsafe_b64encode(name + nonce + sealed).rstrip(b"=").decode()
        return text, Session(holder, until, _csrf(holder, nonce), nonce)

    async def find(self, text: str) -> Session:
        """Raises `NoKey`: it is over, or none of ours; and `Unavailable` where nobody can tell."""
        session = self._open(text)
        now = trio.current_time()
        known = self._looked.get(session.id)
        if known is None or known + _EVERY <= now:
            try:
                over = await self._store.read(ended_sessions.is_ended, session.id)
            except Unavailable:
                if known is None:
                    raise
                over = False  # as keys that are known hold while the store is away
            known = self._note(session, _NEVER if over else now)
        if known == _NEVER:
            raise NoKey(_OVER)
        return session

    async def end(self, text: str) -> None:
        """Signs it out: here at once, elsewhere within seconds. One that is over, or none of ours, is nobody's already.
        Raises a `StoreError` when it could not be written."""
        try:
            session = self._open(text)
        except NoKey:
            return
        if self._looked.get(session.id) == _NEVER:
            return
        with suppress(DuplicateKey):
            await self._store.write(ended_sessions.end, session.id, session.until)
        self._note(session, _NEVER)

    def _note(self, session: Session, at: float) -> float:
        at = self._looked[session.id] = max(at, self._looked.get(session.id, at))  # a look that began before its end
        self._looked.move_to_end(session.id)
        if len(self._looked) > _MOST:
            self._looked.popitem(last=False)
        return at

    def _open(self, text: str) -> Session:
        """What is sealed in it."""
        try:
            data = urlsafe_b64decode(text + "=" * (-len(text) % 4)) if len(text) <= _LONGEST else b""
        except (Error, ValueError):
            data = b""
        name, nonce, sealed = data[:HANDLE], data[HANDLE : HANDLE + _NONCE], data[HANDLE + _NONCE :]
        if len(nonce) < _NONCE:
            raise NoKey(_OVER)
        holder = self._keyring.of_handle(name)
        from cryptography.exceptions import InvalidTag

        try:
            opened = _cipher(holder).decrypt(nonce, sealed, name)
        except InvalidTag:
            raise NoKey(_OVER) from None
        until, token = int.from_bytes(opened[:_TIME], "big"), opened[_TIME:]
        # Its seal could be made of the digest alone, which the store has.
        if not hmac.compare_digest(digest(token), holder.digest) or until <= self._clock.now():
            raise NoKey(_OVER)
        return Session(holder, until, _csrf(holder, nonce), nonce)


def _cipher(holder: Holder) -> "AESGCM":
    # Loaded with the first session: a server that nobody looks at starts without it.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(_seal(holder))


def _seal(holder: Holder) -> bytes:
    return hmac.digest(holder.digest, b"tarry session seal", hashlib.sha256)


def _csrf(holder: Holder, nonce: bytes) -> str:
    made = hmac.digest(holder.digest, b"tarry session csrf" + nonce, hashlib.sha256)
    return urlsafe_b64encode(made[:18]).decode()
