"""Signs posts after Standard Webhooks 1.0: reads secrets, and makes the signatures. Pure."""

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence

PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64
"""Bounds of the bytes of a secret."""
_FORM = (
    f"write {PREFIX} and 24 to 64 random bytes in base64, such as the output of:"
    f' echo "{PREFIX}$(openssl rand -base64 32)"'
)


def read_secret(text: str) -> bytes:
    """The key in a secret's text. Raises ValueError, which says what to write, without repeating what was written."""
    if not text.startswith(PREFIX):
        raise ValueError(f"it does not begin with {PREFIX}: {_FORM}")
    try:
        key = b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"it is not base64: {_FORM}") from None
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise ValueError(f"it has {len(key)} bytes: {_FORM}")
    return key


def signatures(keys: Sequence[bytes], id_: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`: a signature by each key, separated by spaces. `timestamp` is Unix
    seconds."""
    signed = b"%b.%d.%b" % (id_.encode(), timestamp, body)
    return " ".join(f"v1,{b64encode(hmac.digest(key, signed, 'sha256')).decode()}" for key in keys)
