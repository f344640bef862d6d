"""The text of a key: `tarry_` and 32 random bytes. It is shown once; what is kept is its SHA-256."""

import hashlib
import hmac
import secrets

PREFIX = "tarry_"
"""By which a key that got into a log or a repository is recognised."""


def make_token() -> str:
    """A new one."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(token: str | bytes) -> bytes:
    """What is kept of it. The text has 256 random bits, so that nothing slower is needed."""
    return hashlib.sha256(token.encode() if isinstance(token, str) else token).digest()


HANDLE = 9
"""Bytes."""


def handle(digest_: bytes) -> bytes:
    """By what a session names its key; it tells nothing of it."""
    return hmac.digest(digest_, b"tarry session name", hashlib.sha256)[:HANDLE]
