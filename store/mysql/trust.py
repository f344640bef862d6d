"""The TLS context of a session: which server certificates each `ssl_mode` of a DSN accepts."""

import ssl
from functools import lru_cache

from ..errors import Refused
from .dsn import SslMode


@lru_cache(8)
def trust(mode: SslMode, ca: str | None) -> ssl.SSLContext | None:
    """The TLS context; None without TLS. Raises `Refused` when no certificates can be read from the file `ca`."""
    if mode == "DISABLED":
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise Refused(f"ssl_ca={ca}: no certificates could be read ({error})") from error
    context.check_hostname = mode == "VERIFY_IDENTITY"
    if mode in ("PREFERRED", "REQUIRED"):
        context.verify_mode = ssl.CERT_NONE
    return context
