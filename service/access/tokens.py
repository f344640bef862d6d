"""The text of a key: `tarry_` and 32 random bytes. It is shown once; only its SHA-256 is stored."""

import hashlib
import hmac
import secrets

PREFIX = "tarry_"
"""The prefix by which a key is recognised in a log or a repository."""


def make_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest(token: str | bytes) -> bytes:
    """The digest that is stored of a key. The text has 256 random bits, so no slow hash is needed."""
    return hashlib.sha256(token.encode() if isinstance(token, str) else token).digest()


HANDLE = 9
"""Bytes of a handle."""


def handle(digest_: bytes) -> bytes:
    """The handle by which a session names its key; it reveals nothing of the key."""
    return hmac.digest(digest_, b"tarry session name", hashlib.sha256)[:HANDLE]
