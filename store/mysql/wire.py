"""Sends and receives the bytes of one session. All use of trio-mysql is in this file.

trio-mysql 1.0.3 is the last release, of 2021. It is used to log in; `rows` decodes the answers. `Wire` has a remedy for
each of its faults, which are numbered here and in the tests:

    1   caching_sha2_password is not awaited, so no login works at MySQL 9       `_CachingSha2`
    2   text comes back as bytes                                                 `use_unicode`; `rows` knows the types
    3   after a cancelled read it reconnects the same object with stale bytes    an object connects once
    4   closing calls a method that streams do not have: the socket leaks        `_force_close`
    5   a cancelled write leaves half a packet sent and the connection "open"    `_write_bytes`
    6   an unread second result is an endless loop                               `ask_as_one` reads each
    7   connect_timeout covers TCP only                                          `connect`
    8   TLS is skipped silently when the server offers none                      `_get_server_information`
    9   a password beyond Latin-1 cannot be sent                                 it is given as UTF-8 bytes
    10  a server that asks for the password in clear gets it, TLS or not         `_RefuseClear`
    11  an unsupported login method raises no error of its own                   `_process_auth`
    12  an error before the greeting has no SQL state, and loses six letters     `_WholeErrors`
"""

import os
import select
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import trio

from ..errors import Refused, Unavailable, Unfit
from .dsn import Dsn
from .rows import MAX_PAYLOAD, Answer, ProtocolError, read_error
from .trust import trust

if TYPE_CHECKING:
    # trio-mysql has no types: these are the parts that are used here, as of 1.0.3.
    class _Packet:
        def get_all_data(self) -> bytes: ...
        def read_all(self) -> bytes: ...
        def is_ok_packet(self) -> bool: ...

    class _AnyPacket(_Packet):
        _data: bytes

    class _TrioMysql:
        _sock: "_Stream | None"
        _closed: bool
        _secure: bool
        _rbuf: bytearray
        _rbuf_offset: int
        _next_seq_id: int
        _auth_plugin_name: str
        server_capabilities: int
        server_version: str
        client_flag: int
        password: bytes

        def __init__(self, **settings: object) -> None: ...
        async def connect(self) -> None: ...
        async def write_packet(self, payload: bytes) -> None: ...
        async def _read_packet(self, packet_type: type[_Packet] = ...) -> _Packet: ...
        async def _get_server_information(self) -> None: ...
        async def _process_auth(self, plugin_name: bytes, auth_packet: _Packet) -> _Packet: ...

    class MysqlError(Exception): ...

    def _scramble(password: bytes, nonce: bytes) -> bytes: ...
    def _encrypt(password: bytes, nonce: bytes, key: bytes) -> bytes: ...
else:
    from trio_mysql._auth import scramble_caching_sha2 as _scramble
    from trio_mysql._auth import sha2_rsa_encrypt as _encrypt
    from trio_mysql.connections import Connection as _TrioMysql
    from trio_mysql.err import MySQLError as MysqlError
    from trio_mysql.protocol import MysqlPacket as _AnyPacket

_Stream: TypeAlias = trio.SocketStream | trio.SSLStream[trio.SocketStream]

__all__ = ["COM_PING", "COM_QUERY", "MysqlError", "Wire"]

COM_QUERY, COM_PING = 3, 14

_NO_SUCH_PLUGIN = (2059, 2061)
_LACKS = {"client_ed25519": "for which Tarry needs the package pynacl (pip install pynacl)"}
"""Login methods that need another package."""

_SENT_TOGETHER = 1 << 20
"""Bytes: several statements are sent together up to this size."""
_PRELUDE = struct.Struct("<IB")
_HEADER = struct.Struct("<I")

_QUIT = b"\x01\x00\x00\x00\x01"
_CLIENT_FOUND_ROWS, _CLIENT_SSL, _CLIENT_MULTI_STATEMENTS, _CLIENT_DEPRECATE_EOF = 1 << 1, 1 << 11, 1 << 16, 1 << 24
_READ_BYTES = 1 << 16


class _WholeErrors(_AnyPacket):
    """Fault 12, which occurs when a server has no room for another session."""

    def raise_for_error(self) -> None:
        error = read_error(self._data)
        raise MysqlError(error.code, error.message)


class _CachingSha2:
    """Fault 1. The login of MySQL 8+: a hash if the server remembers the password, else the password, sealed by TLS or
    by the server's RSA key."""

    def __init__(self, wire: "Wire") -> None:
        self._wire = wire

    async def authenticate(self, request: "_Packet") -> "_Packet":
        wire = self._wire
        # 20 bytes and a NUL, which is not part of it.
        nonce = request.read_all()[:20]
        packet = await wire.exchange(_scramble(wire.password, nonce))
        if packet.is_ok_packet():
            return packet
        verdict = packet.get_all_data()
        if verdict == b"\x01\x03":
            return await wire.exchange(None)
        if verdict != b"\x01\x04":
            raise ProtocolError(f"caching_sha2_password: {verdict!r}")
        if wire.sealed:
            return await wire.exchange(wire.password + b"\0")
        key = (await wire.exchange(b"\x02")).get_all_data()[1:]
        return await wire.exchange(_encrypt(wire.password, nonce, key))


class _RefuseClear:
    """Fault 10. Without this, a machine in the middle could ask for the password and would get it."""

    def __init__(self, wire: "Wire") -> None:
        self._wire = wire

    async def authenticate(self, request: "_Packet") -> "_Packet":
        if not self._wire.sealed:
            raise Refused(
                "the server asks for the password in clear: say ssl_mode=VERIFY_IDENTITY, or use another account", 2061
            )
        return await self._wire.exchange(self._wire.password + b"\0")


def pack(command: int, payload: bytes) -> list[bytes]:
    """A command as packets of the protocol, each a header and a piece; after a piece of full length another follows."""
    packets = [_PRELUDE.pack(min(len(payload) + 1, MAX_PAYLOAD), command), payload[: MAX_PAYLOAD - 1]]
    sent = MAX_PAYLOAD - 1
    while sent <= len(payload):
        piece = payload[sent : sent + MAX_PAYLOAD]
        packets += [_HEADER.pack(len(piece) | len(packets) // 2 % 256 << 24), piece]
        sent += MAX_PAYLOAD
    return packets


class Wire(_TrioMysql):
    """trio-mysql's connection with the remedies."""

    def __init__(self, dsn: Dsn, timeout: float, *, several: bool) -> None:
        """`several`: statements may be sent as one."""
        self._ssl_mode = dsn.ssl_mode
        self._spent = False
        # A statement is on its way, or its answer.
        self._busy = False
        # Logged in and set up.
        self.ready = False
        # The socket's descriptor, after a login without TLS: asking the kernel directly is cheaper. Otherwise -1.
        self._descriptor = -1
        self._poll = select.poll()
        super().__init__(
            user=dsn.user,
            password=dsn.password.encode(),  # fault 9
            host=dsn.host,
            port=dsn.port,
            unix_socket=dsn.socket,
            database=dsn.database,
            charset="utf8mb4",
            use_unicode=True,  # fault 2
            autocommit=None,
            client_flag=_CLIENT_FOUND_ROWS | (_CLIENT_MULTI_STATEMENTS if several else 0),
            connect_timeout=timeout,
            ssl=trust(dsn.ssl_mode, dsn.ssl_ca),
            auth_plugin_map={
                "caching_sha2_password": _CachingSha2,
                "mysql_clear_password": _RefuseClear,
                "dialog": _RefuseClear,
            },
            program_name="tarry",
        )

    @property
    def closed(self) -> bool:
        return self._sock is None

    @property
    def sealed(self) -> bool:
        """Whether it is TLS or a Unix socket, so nobody can listen."""
        return self._secure

    def is_readable(self) -> bool:
        return bool(self._poll.poll(0))

    async def connect(self) -> None:
        # Fault 3: bytes of an earlier session may be in the buffer, also after a reconnect by `ping`.
        if self._spent:
            raise RuntimeError("a connection is not used again: make a new one")
        self._spent = True
        await super().connect()
        if self._rbuf_offset != len(self._rbuf):
            raise ProtocolError("bytes after the login")
        own = self._socket()
        self._poll.register(own.fileno(), select.POLLIN)
        if isinstance(self._sock, trio.SocketStream):
            self._descriptor = own.fileno()
        if own.family != socket.AF_UNIX:
            # A server that vanishes silently is noticed in half a minute, not in hours.
            for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
                own.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)

    async def exchange(self, payload: bytes | None) -> "_Packet":
        """Sends a packet of the login, if there is one to send, and reads the next; raises for an ERR."""
        if payload is not None:
            await self.write_packet(payload)
        return await self._read_packet()

    async def _read_packet(self, packet_type: "type[_Packet]" = _WholeErrors) -> "_Packet":
        return await super()._read_packet(packet_type)

    async def ask(self, command: int, payloads: Sequence[bytes]) -> list[Answer]:
        """Sends commands, then reads all answers, with one await for each read of the socket.

        Commands after one that the server refused are executed all the same.
        """
        stream = self._stream()
        self._busy = True
        deprecate_eof = bool(self.client_flag & _CLIENT_DEPRECATE_EOF)
        answers: list[Answer] = []
        try:
            waiting: list[bytes] = []
            held = 0
            for payload in payloads:
                packets = pack(command, payload)
                followed = len(answers) + 1 < len(payloads)
                answers.append(Answer(sequence=len(packets) // 2 % 256, deprecate_eof=deprecate_eof, followed=followed))
                waiting += packets
                held += len(payload)
                if held >= _SENT_TOGETHER or not followed:
                    await self._send(stream, b"".join(waiting))
                    waiting.clear()
                    held = 0
            rest = b""
            for answer in answers:
                rest = await self._read(stream, answer, rest)
                if answer.error is not None and answer.error.unasked:
                    return [answer]
        except BaseException:
            self._force_close()
            raise
        self._busy = False
        return answers

    async def ask_as_one(self, statements: Sequence[bytes]) -> list[Answer]:
        """Sends statements that return no rows as one command; the server executes them until one fails.

        Then the error is the last of the answers; the statements after it have none.
        """
        stream = self._stream()
        self._busy = True
        answers: list[Answer] = []
        try:
            packets = pack(COM_QUERY, b";".join(statements))
            await self._send(stream, b"".join(packets))
            rest = b""
            for behind in reversed(range(len(statements))):
                # Each answer is one packet, an OK or an ERR.
                answer = Answer(sequence=(len(packets) // 2 + len(answers)) % 256, more=behind > 0)
                answers.append(answer)
                rest = await self._read(stream, answer, rest)
                if answer.error is not None:
                    break
            if rest:
                raise ProtocolError(f"{len(rest)} bytes after the answer")
        except BaseException:
            self._force_close()
            raise
        self._busy = False
        return answers

    async def _read(self, stream: _Stream, answer: Answer, rest: bytes) -> bytes:
        """Reads an answer to its end, beginning with the bytes `rest` of the read before; returns the bytes after
        it."""
        while not answer.feed(rest or await self._receive(stream)):
            rest = b""
        return answer.take_rest()

    def quit(self) -> None:
        """Closes the session. Tells the server if that is possible without waiting, since otherwise its log
        complains."""
        if self.ready and not self._busy and self._descriptor >= 0:
            with suppress(OSError):
                os.write(self._descriptor, _QUIT)
        self._force_close()

    def _stream(self) -> _Stream:
        if self._sock is None:
            raise trio.ClosedResourceError("closed")
        return self._sock

    def _socket(self) -> trio.socket.SocketType:
        stream = self._stream()
        return (stream if isinstance(stream, trio.SocketStream) else stream.transport_stream).socket

    async def _send(self, stream: _Stream, data: bytes) -> None:
        if self._descriptor >= 0:
            # Written directly: the caller waits for the answer next, so a round of the event loop before is not needed.
            try:
                sent = os.write(self._descriptor, data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                raise trio.BrokenResourceError from error
            if sent == len(data):
                return
            data = data[sent:]
        await stream.send_all(data)

    async def _receive(self, stream: _Stream) -> bytes:
        if self._descriptor >= 0:
            await trio.lowlevel.wait_readable(self._descriptor)  # no answer comes so soon that trying first would help
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return await self._receive(stream)
            except OSError as error:
                raise trio.BrokenResourceError from error
        else:
            data = bytes(await stream.receive_some(_READ_BYTES))
        if not data:
            raise trio.BrokenResourceError("the server hung up")
        return data

    async def _get_server_information(self) -> None:
        await super()._get_server_information()
        offered = bool(self.server_capabilities & _CLIENT_SSL)
        if self._ssl_mode not in ("DISABLED", "PREFERRED") and not offered:
            raise Unavailable("the server offers no TLS: set it up there, or say ssl_mode=DISABLED", 2026)  # fault 8
        # Bytes that came in clear must not be taken for bytes under TLS.
        if self._ssl_mode != "DISABLED" and offered and self._rbuf_offset != len(self._rbuf):
            raise ProtocolError("bytes between the greeting and TLS")
        if self._auth_plugin_name != "mysql_native_password":
            # Fault 1: with no name the server asks for its method, and then `auth_plugin_map` is heeded.
            self._auth_plugin_name = ""
        self.client_flag |= self.server_capabilities & _CLIENT_DEPRECATE_EOF

    async def _process_auth(self, plugin_name: bytes, auth_packet: "_Packet") -> "_Packet":
        # Fault 11.
        try:
            return await super()._process_auth(plugin_name, auth_packet)
        except RuntimeError as error:
            why = f"({error})"
        except MysqlError as error:
            if error.args[0] not in _NO_SUCH_PLUGIN:
                raise
            why = "which Tarry does not know"
        name = plugin_name.decode("ascii", "replace")
        raise Unfit(
            f"the server wants to let this user in by {name}, {_LACKS.get(name, why)}: let it in by another,"
            " caching_sha2_password on MySQL or mysql_native_password on MariaDB",
            2059,
        )

    async def _write_bytes(self, data: bytes) -> None:
        # Fault 5.
        try:
            await self._stream().send_all(data)
        except BaseException:
            self._force_close()
            raise

    def _force_close(self) -> None:
        # Fault 4. Also called by the garbage collector, before __init__ has come far and after trio has ended.
        stream: _Stream | None = getattr(self, "_sock", None)
        self._sock = None
        self._descriptor = -1
        self._closed = True
        if stream is None:
            return
        own = (stream if isinstance(stream, trio.SocketStream) else stream.transport_stream).socket
        try:
            own.close()
        except RuntimeError:
            with suppress(OSError):
                os.close(own.detach())

    __del__ = _force_close
