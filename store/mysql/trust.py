"""Whom a session under TLS is with: what each `ssl_mode` of a DSN looks at."""

import ssl
from functools import lru_cache

from ..errors import Refused
from .dsn import SslMode


@lru_cache(8)
def trust(mode: SslMode, ca: str | None) -> ssl.SSLContext | None:
    """None without TLS. Raises `Refused` when there are no certificates to trust in the file `ca`."""
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
