"""Posts one request to an endpoint, and reads the head of its answer.

The endpoint's name is resolved for each post, and only an address that was checked is connected to, now or earlier by a
connection that was kept; the name is used for TLS and Host. Redirects are not followed, and only as much is read as
needed to know the answer's status.
"""

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import cast

import trio
from attrs import frozen
from httpcore import RemoteProtocolError

from ...client.http11 import Request, Response, ResponseReader, written
from .addresses import Address, Network, is_allowed, refused
from .connections import Connection, Connections, place_of
from .endpoint import Endpoint

Resolve = Callable[[str], Awaitable[Sequence[Address]]]
"""The addresses of a name. Raises OSError."""

_MOST = 64 << 10
"""The most bytes of an answer that are read."""
_READ_BYTES = 16 << 10
_TRIED = 3
"""The most addresses of a name that are tried."""


class Unreached(Exception):
    """The endpoint gave no answer; the text says why. It is stored with the message, for all who may read that, so it
    contains neither the path nor an address that is not in the URL. `found` has the details, for the log only."""

    def __init__(self, why: str, found: str = "") -> None:
        super().__init__(why)
        self.found = found or why


@frozen
class Post:
    endpoint: Endpoint
    headers: Mapping[str, str]
    body: bytes
    content_type: str


@frozen
class Poster:
    """Posts to the public internet and to the networks in `allowed`, trusting the certificate authorities of
    `trusted`."""

    allowed: Sequence[Network]
    resolve: Resolve
    trusted: ssl.SSLContext

    async def post(self, post: Post, timeout: float, connections: Connections) -> Response:
        """Posts, and returns the head of the answer; `timeout` is in seconds, for everything. Raises `Unreached`.

        It uses an idle connection, or a new one. If an idle connection ends without a byte of an answer, as when the
        endpoint was just closing it, the post is repeated once over a new connection.
        """
        reader = ResponseReader()
        with trio.move_on_after(timeout):
            try:
                await self._exchange(post, reader, timeout, connections)
            except ssl.SSLError as error:  # trio raises it as the cause of a broken stream, or directly
                raise Unreached(f"TLS: {error.reason or type(error).__name__}") from error
            except trio.BrokenResourceError as error:
                raise Unreached(_why_broken(error)) from error
            except OSError as error:
                raise Unreached(_told(error), str(error)) from error
            except RemoteProtocolError as error:
                raise Unreached(str(error)) from error
        if reader.head is None:
            raise Unreached(f"the endpoint did not answer within {timeout:g} s")
        return reader.head

    async def _exchange(self, post: Post, reader: ResponseReader, timeout: float, connections: Connections) -> None:
        addresses = await self._addresses(post.endpoint)
        if (waited := connections.take(post.endpoint, addresses)) is not None:
            try:
                await _ask(waited, post, reader, connections)
            except (trio.BrokenResourceError, RemoteProtocolError):
                if waited.heard:
                    raise
            else:
                return
        new = await self._connect(post.endpoint, addresses[:_TRIED], timeout)
        await _ask(new, post, reader, connections)

    async def _connect(self, endpoint: Endpoint, addresses: Sequence[Address], timeout: float) -> Connection:
        for number, address in enumerate(addresses):
            is_last = number == len(addresses) - 1
            try:
                with trio.fail_after(timeout if is_last else timeout / 3):
                    stream = await trio.open_tcp_stream(str(address), endpoint.port)
                break
            except (OSError, trio.TooSlowError) as error:
                if is_last:
                    why = f"{endpoint.shown} cannot be reached: {_told(error)}"
                    raise Unreached(why, f"{why}, at {address}") from error
        else:
            raise Unreached(f"{endpoint.host} has no address")
        place, now = place_of(endpoint), trio.current_time()
        if not endpoint.tls:
            return Connection(stream, stream, address, place, now)
        secured = trio.SSLStream(stream, self.trusted, server_hostname=endpoint.host, https_compatible=True)
        try:
            await secured.do_handshake()
        except BaseException:
            stream.socket.close()
            raise
        return Connection(secured, stream, address, place, now)

    async def _addresses(self, endpoint: Endpoint) -> Sequence[Address]:
        """The endpoint's addresses that may be posted to."""
        if endpoint.address is not None:
            found: Sequence[Address] = [endpoint.address]
        else:
            try:
                found = await self.resolve(endpoint.host)
            except OSError as error:
                raise Unreached(f"{endpoint.host} cannot be resolved: {error.strerror or error}") from error
        why, told = f"{endpoint.host} has no address", ""
        may: list[Address] = []
        for address in found:
            if (wrong := refused(address, self.allowed)) is not None:
                why = f"{endpoint.host} leads to an address that is not of the public internet: push_allow names it not"
                told = wrong
            elif not endpoint.tls and not is_allowed(address, self.allowed):
                why = f"{endpoint.host} leads to an address that is posted to over TLS only: push_allow names it not"
                told = f"{address} is posted to over TLS only: push_allow does not name it"
            else:
                may.append(address)
        if not may:
            raise Unreached(why, told)
        return may


async def _ask(connection: Connection, post: Post, reader: ResponseReader, connections: Connections) -> None:
    request = Request("POST", post.endpoint.target, post.body, post.content_type)
    common = "".join(f"{name}: {value}\r\n" for name, value in post.headers.items()).encode()
    whole = False
    try:
        # If the endpoint closes early, it may have answered before, for example that the post is too large.
        with suppress(trio.BrokenResourceError):
            await connection.stream.send_all(written(request, b"", common))
            whole = True
        await _read(connection, reader)
    except BaseException:
        connection.close()
        raise
    if whole and reader.whole and reader.keeps:
        connections.keep(connection)
    else:
        connection.close()


async def _read(connection: Connection, reader: ResponseReader) -> None:
    """Reads the head, and as much of the rest as lets the endpoint finish its answer."""
    read = 0
    while not reader.whole and read < _MOST:
        try:
            data = await connection.stream.receive_some(_READ_BYTES)
            read += len(data)
            connection.heard |= bool(data)
            reader.feed(bytes(data))
        except (trio.BrokenResourceError, RemoteProtocolError):
            if reader.head is None:
                raise
            return
    if reader.head is None:
        raise RemoteProtocolError(f"the answer has more than {_MOST >> 10} KiB before its content")


def _told(error: BaseException) -> str:
    """The error's text without the address, which trio's own texts contain."""
    if isinstance(error, trio.TooSlowError):
        return "no answer"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        cause = cast("BaseExceptionGroup[BaseException]", cause).exceptions[0]
    return type(error).__name__ if cause is None else _told(cause)


def _why_broken(error: trio.BrokenResourceError) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"TLS: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"TLS: {cause.reason or type(cause).__name__}"
    return "the endpoint closed the connection without an answer"
