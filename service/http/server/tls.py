"""TLS: loads the server's certificate, also anew while it serves, and wraps streams with it."""

import ssl
from pathlib import Path
from typing import NoReturn

import structlog
import trio
from attrs import define, field

HANDSHAKE = 10.0
"""Seconds within which a handshake must finish."""

log = structlog.get_logger()

SealedStream = trio.SSLStream[trio.SocketStream]


class BadCertificate(Exception):
    """The certificate cannot be loaded; the text names the file and what is wrong with it."""


@define(eq=False)
class Certificate:
    """The certificate with its chain, and its key, both PEM. Raises `BadCertificate`."""

    _cert: Path
    _key: Path
    _context: ssl.SSLContext = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._context = self._load()

    def reload(self) -> None:
        """Loads the files anew for new connections; if they are invalid, keeps the certificate from before."""
        try:
            self._context = self._load()
        except BadCertificate as error:
            log.error("certificate_not_renewed", error=str(error))
        else:
            log.info("certificate_renewed", file=str(self._cert))

    def seal(self, stream: trio.SocketStream) -> SealedStream:
        """Wraps the stream in TLS; the handshake is still to come."""
        return trio.SSLStream(stream, self._context, server_side=True, https_compatible=True)

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        for file in (self._cert, self._key):
            try:
                file.read_bytes()
            except OSError as error:
                raise BadCertificate(f"{file}: {error.strerror}") from error
        try:
            context.load_cert_chain(self._cert, self._key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise BadCertificate(f"{self._cert} and {self._key}: no certificate and its key ({error})") from error
        return context


def _no_password() -> NoReturn:
    """Refuses a key with a password; else OpenSSL would ask for it on the terminal."""
    raise ValueError("the key has a password: store it without")
