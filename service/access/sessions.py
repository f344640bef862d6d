"""Sessions of browsers: seals a key into a cookie, which any server on the store can open.

No session is stored anywhere while it lasts. It is encrypted with a secret made from the digest of its key, which all
servers on the store know; its content is the text of the key, which none of them knows. So nobody who reads the store
can forge a session, nobody who has a cookie can prolong it, and a session ends with its key, at every server. A session
that is signed out is stored until its time is over, and servers look for it there every few seconds while it is
used.
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
"""Milliseconds for which a session lasts."""
_NONCE = 12
_TIME = 8
_LONGEST = 512
"""The most characters of a cookie; valid ones have fewer."""
_EVERY = 3.0
"""Seconds between two checks whether a session was signed out at another server."""
_MOST = 10_000
"""The most sessions of which the last check is remembered."""
_NEVER = float("inf")
_OVER = "the session is over; sign in with a key"


@frozen
class Session:
    """An open session: its holder, and the token that proves that a page of ours sends a request."""

    holder: Holder
    until: int
    """When it ends, Unix milliseconds."""
    csrf: str
    """The token sent in a header with each write: only a page of this server can read it."""
    id: bytes
    """Unique to the session."""


@define(eq=False)
class Sessions:
    """`begin` makes the text of a cookie, `find` opens it, `end` signs it out."""

    _keyring: Keyring
    _clock: Clock
    _store: Store
    _looked: OrderedDict[bytes, float] = field(factory=OrderedDict[bytes, float], init=False)
    """By session: when it was last found valid; `_NEVER` if it was signed out."""

    def begin(self, token: bytes) -> tuple[str, Session]:
        """Begins a session of this key. Raises `NoKey`, or `Unavailable` if the store cannot tell."""
        holder = self._keyring.find(token)
        name, nonce = handle(holder.digest), secrets.token_bytes(_NONCE)
        until = self._clock.now() + LASTS
        sealed = _cipher(holder).encrypt(nonce, until.to_bytes(_TIME, "big") + token, name)
        text = urlsafe_b64encode(name + nonce + sealed).rstrip(b"=").decode()
        return text, Session(holder, until, _csrf(holder, nonce), nonce)

    async def find(self, text: str) -> Session:
        """The session of a cookie. Raises `NoKey` if it is over or not one of ours, or `Unavailable` if the store
        cannot tell."""
        session = self._open(text)
        now = trio.current_time()
        known = self._looked.get(session.id)
        if known is None or known + _EVERY <= now:
            try:
                over = await self._store.read(ended_sessions.is_ended, session.id)
            except Unavailable:
                if known is None:
                    raise
                over = False  # like known keys, known sessions stay valid while the store is away
            known = self._note(session, _NEVER if over else now)
        if known == _NEVER:
            raise NoKey(_OVER)
        return session

    async def end(self, text: str) -> None:
        """Signs a session out: here at once, elsewhere within seconds. Does nothing if it is over or not one of ours.
        Raises a `StoreError` if this could not be stored."""
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
        at = self._looked[session.id] = max(at, self._looked.get(session.id, at))  # the check may predate its end
        self._looked.move_to_end(session.id)
        if len(self._looked) > _MOST:
            self._looked.popitem(last=False)
        return at

    def _open(self, text: str) -> Session:
        """Decrypts and checks a cookie. Raises `NoKey` or `Unavailable`."""
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
        # The seal could be forged with the digest alone, which is in the store; the key's text could not.
        if not hmac.compare_digest(digest(token), holder.digest) or until <= self._clock.now():
            raise NoKey(_OVER)
        return Session(holder, until, _csrf(holder, nonce), nonce)


def _cipher(holder: Holder) -> "AESGCM":
    # Loaded with the first session, so that it does not slow down the start of a server without any.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hmac.digest(holder.digest, b"tarry session seal", hashlib.sha256))


def _csrf(holder: Holder, nonce: bytes) -> str:
    made = hmac.digest(holder.digest, b"tarry session csrf" + nonce, hashlib.sha256)
    return urlsafe_b64encode(made[:18]).decode()
