"""Keeps clients in the test process from loading the public certificate authorities, which takes 60 ms per client."""

import os
import ssl
from typing import Any

import certifi

_PUBLIC = {certifi.where(), os.environ.get("SSL_CERT_FILE")}


def forget() -> None:
    """Skips public authorities from now on. Those that a test names are trusted; child processes are not affected."""
    contexts: Any = ssl.SSLContext
    load = contexts.load_verify_locations

    def load_named(context: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        if cafile is None or cafile not in _PUBLIC:
            load(context, cafile, capath, cadata)

    contexts.load_verify_locations = load_named
    contexts.load_default_certs = lambda *_: None
