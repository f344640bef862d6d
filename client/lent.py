"""Requests through httpx: a user's own client, or one that goes by the environment's proxies."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.request import getproxies

import httpx

from .connections import Taker
from .http11 import Request, Response
from .processes import Owner

T = TypeVar("T")


class _Options:
    """Makes the arguments for httpx."""

    def __init__(self, url: str, timeout: float, headers: Mapping[str, str]) -> None:
        self._url = url
        self._timeout = timeout
        self._headers = headers

    def _asked(self, request: Request) -> dict[str, Any]:
        """The arguments of httpx's `request`. Not of `send`: users' own clients add credentials in `request`."""
        kind = {} if request.media_type is None else {"Content-Type": request.media_type}
        return {
            "method": request.method,
            "url": self._url + request.path,
            "content": request.content,
            "params": request.params,
            "headers": {**kind, **(request.headers or {}), **self._headers},
            "timeout": httpx.Timeout(self._timeout, read=self._timeout + request.wait),
        }


class Lent(_Options):
    """An httpx client for threads."""

    def __init__(self, client: httpx.Client, url: str, timeout: float, headers: Mapping[str, str]) -> None:
        super().__init__(url, timeout, headers)
        self._client = client

    async def exchange(self, request: Request, begun: Callable[[Response], Taker] | None = None) -> Response:
        asked = self._asked(request)
        if begun is None or not _streams(self._client):
            return _whole(self._client.request(**asked), begun)
        with self._client.stream(**asked) as response:
            if not response.is_success:
                response.read()
                return _whole(response, None)
            head = _head(response)
            take = begun(head)
            for piece in response.iter_bytes():
                take(piece)
        return head

    async def close(self) -> None:
        self._client.close()


class AsyncLent(_Options):
    """An httpx client for tasks."""

    def __init__(self, client: httpx.AsyncClient, url: str, timeout: float, headers: Mapping[str, str]) -> None:
        super().__init__(url, timeout, headers)
        self._client = client

    async def exchange(self, request: Request, begun: Callable[[Response], Taker] | None = None) -> Response:
        asked = self._asked(request)
        if begun is None or not _streams(self._client):
            return _whole(await self._client.request(**asked), begun)
        async with self._client.stream(**asked) as response:
            if not response.is_success:
                await response.aread()
                return _whole(response, None)
            head = _head(response)
            take = begun(head)
            async for piece in response.aiter_bytes():
                take(piece)
        return head

    async def close(self) -> None:
        await self._client.aclose()


def lent(client: T) -> Callable[[], T]:
    """Gives the caller's own client, but only in the process where it was given."""
    owner = Owner()

    def give() -> T:
        if not owner.here():
            raise RuntimeError(
                f"the httpx client was given in process {owner.pid}, and its connections cannot serve two: "
                "make the client, and Tarry around it, after the fork"
            )
        return client

    return give


def wants_httpx(url: str) -> bool:
    """Whether the address or the environment names something that only httpx supports: credentials, a proxy.

    Of `NO_PROXY` only the host itself and `*` are heeded here; httpx knows the rest.
    """
    address = httpx.URL(url)
    proxies = getproxies()
    if address.userinfo or not address.host:
        return True
    spared = {host.strip() for host in proxies.get("no", "").split(",")}
    return bool(proxies.get(address.scheme) or proxies.get("all")) and not spared & {"*", address.host}


def _streams(client: httpx.Client | httpx.AsyncClient) -> bool:
    """Whether answers can be streamed: not if the client's class has a `request` of its own, which adds credentials."""
    return type(client).request in (httpx.Client.request, httpx.AsyncClient.request)


def _head(response: httpx.Response) -> Response:
    return Response(response.status_code, response.headers)


def _whole(response: httpx.Response, begun: Callable[[Response], Taker] | None) -> Response:
    answer = Response(response.status_code, response.headers, response.content)
    if begun is not None and answer.is_success:
        begun(answer)(answer.content)
    return answer
