"""Sessions of people at a browser: a key, sealed into a cookie, which any server of the store can open.

Nothing is kept anywhere. The seal of a session comes from the digest of its key, which all servers on the store know;
what is sealed is the text of the key, which none of them does. So whoever reads the store can make no session, whoever
has a cookie cannot make it last longer, and a session ends with its key, at every server.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from typing import TYPE_CHECKING

from attrs import define, frozen

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
_OVER = "the session is over; sign in with a key"


@frozen
class Session:
    """Who asks, and what proves that a page of ours does."""

    holder: Holder
    until: int
    """Unix milliseconds."""
    csrf: str
    """Sent in a header with each write: only a page of this server can read it."""


@define(eq=False)
class Sessions:
    """`begin` makes the text of a cookie, `find` says whose it is."""

    _keyring: Keyring
    _clock: Clock

    def begin(self, token: bytes) -> tuple[str, Session]:
        """A session of this key. Raises `NoKey`, and `Unavailable` where nobody can tell."""
        holder = self._keyring.find(token)
        name, nonce = handle(holder.digest), secrets.token_bytes(_NONCE)
        until = self._clock.now() + LASTS
        sealed = _cipher(holder).encrypt(nonce, until.to_bytes(_TIME, "big") + token, name)
        text = urlsafe_b64encode(name + nonce + sealed).rstrip(b"=").decode()
        return text, Session(holder, until, _csrf(holder, nonce))

    def find(self, text: str) -> Session:
        """Raises `NoKey`: it is over, or none of ours; and `Unavailable` where nobody can tell."""
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
        return Session(holder, until, _csrf(holder, nonce))


def _cipher(holder: Holder) -> "AESGCM":
    # Loaded with the first session: a server that nobody looks at starts without it.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(_seal(holder))


def _seal(holder: Holder) -> bytes:
    return hmac.digest(holder.digest, b"tarry session seal", hashlib.sha256)


def _csrf(holder: Holder, nonce: bytes) -> str:
    made = hmac.digest(holder.digest, b"tarry session csrf" + nonce, hashlib.sha256)
    return urlsafe_b64encode(made[:18]).decode()
