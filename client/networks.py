"""Opens connections with httpcore, for threads, asyncio and trio, behind one interface."""

import ssl
from typing import Any, Protocol

from anyio import CancelScope
from httpcore import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, NetworkStream, SyncBackend, TrioBackend

from .async_tasks import on_trio


class Network(Protocol):
    """Opens and closes connections. Errors are httpcore's."""

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None, timeout: float) -> AsyncNetworkStream:
        """Opens a connection; `timeout` is seconds for it, and again for the TLS handshake."""
        ...

    async def close(self, stream: AsyncNetworkStream) -> None:
        """Closes a connection at once, even in a cancelled scope."""
        ...


class ThreadNetwork:
    """For threads: its coroutines block, and never suspend."""

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None, timeout: float) -> AsyncNetworkStream:
        stream = SyncBackend().connect_tcp(host, port, timeout)
        if tls is not None:
            stream = stream.start_tls(tls, host, timeout)
        return _Blocking(stream)

    async def close(self, stream: AsyncNetworkStream) -> None:
        await stream.aclose()


class TaskNetwork:
    """For the tasks of an event loop."""

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None, timeout: float) -> AsyncNetworkStream:
        backend: AsyncNetworkBackend = TrioBackend() if on_trio() else AnyIOBackend()
        stream = await backend.connect_tcp(host, port, timeout)
        if tls is None:
            return stream
        try:
            return await stream.start_tls(tls, host, timeout)
        except BaseException:
            await self.close(stream)
            raise

    async def close(self, stream: AsyncNetworkStream) -> None:
        with CancelScope(shield=True):
            await stream.aclose()


class _Blocking(AsyncNetworkStream):
    """A blocking connection, with the interface of an asynchronous one."""

    def __init__(self, stream: NetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
