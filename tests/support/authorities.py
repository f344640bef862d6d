"""Clients in the tests' own processes know no public authority: to read them takes each new client 60 ms."""

import os
import ssl
from typing import Any

import certifi

_PUBLIC = {certifi.where(), os.environ.get("SSL_CERT_FILE")}


def forget() -> None:
    """Whom a test names is trusted as ever; what tests start has those of the machine."""
    contexts: Any = ssl.SSLContext
    load = contexts.load_verify_locations

    def load_named(context: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        if cafile is None or cafile not in _PUBLIC:
            load(context, cafile, capath, cadata)

    contexts.load_verify_locations = load_named
    contexts.load_default_certs = lambda *_: None
