"""HTTP, and the only place where a call is tried again.

Every call of the client may be repeated: a publish carries its idempotency key, and the contract makes the others safe.
A repeated claim may leave the first one's messages to their lease, which then costs them an attempt.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import httpx
from attrs import frozen
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_any,
    stop_before_delay,
    stop_when_event_set,
    wait_random_exponential,
)

from .. import __version__
from .errors import TarryError, Unavailable, refusal

_BACKOFF = wait_random_exponential(multiplier=0.05, max=2)
"""Full jitter: anything from nothing to 50 ms, 100 ms, 200 ms ... 2 s."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@frozen
class Reply:
    """A success."""

    document: dict[str, Any]
    size: int


def encode(document: Any) -> bytes:
    """JSON in UTF-8. NaN, infinities and lone surrogates have no place in it: ValueError."""
    return _ENCODER.encode(document).encode()


class Transport:
    """Calls to one server. Safe to share between threads."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        deadline: float,
        client: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f'"{url}" is not the address of a server: it begins with http:// or https://')
        self.url = url.rstrip("/")
        self._timeout = timeout
        self._deadline = deadline
        self._owned = client is None
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._http = client or httpx.Client(limits=limits, headers={"User-Agent": f"tarry-client/{__version__}"})
        self._sleep = sleep

    def close(self) -> None:
        """Closes the connections, unless they are the caller's own."""
        if self._owned:
            self._http.close()

    def call(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        *,
        params: Mapping[str, str | int] | None = None,
        wait: float = 0.0,
        deadline: float | None = None,
        abandon: threading.Event | None = None,
    ) -> Reply:
        """One call, tried again while the server is away, until `deadline` seconds have passed or `abandon` is set.

        `wait` is how long the server may rightly take.
        """
        stop = stop_before_delay(self._deadline if deadline is None else deadline)
        retrying = Retrying(
            retry=retry_if_exception_type(Unavailable),
            wait=_pause,
            stop=stop if abandon is None else stop_any(stop, stop_when_event_set(abandon)),
            sleep=self._sleep if abandon is None else sleep_using_event(abandon),
            reraise=True,
        )
        return retrying(self._once, method, path, content, params, wait)

    def _once(
        self, method: str, path: str, content: bytes | None, params: Mapping[str, str | int] | None, wait: float
    ) -> Reply:
        try:
            response = self._http.request(
                method,
                self.url + path,
                content=content,
                params=params,
                headers=None if content is None else {"Content-Type": "application/json"},
                timeout=httpx.Timeout(self._timeout, read=self._timeout + wait),
            )
        except httpx.RequestError as error:
            raise Unavailable(f"{self.url} does not answer: {error or type(error).__name__}") from error
        document = _document(response)
        if response.is_success and document is not None:
            return Reply(document, len(response.content))
        if document is None:
            kind = response.headers.get("Content-Type", "no content")
            document = {"detail": f"{self.url} answered {response.status_code} with {kind}: is it Tarry?"}
            if response.is_success:
                raise TarryError(document["detail"], status=response.status_code)
        raise refusal(response.status_code, document, _retry_after(response))


def _document(response: httpx.Response) -> dict[str, Any] | None:
    try:
        document = response.json()
    except ValueError:
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers["Retry-After"]))
    except (KeyError, ValueError):  # a date is allowed too; Tarry sends seconds
        return None


def _pause(state: RetryCallState) -> float:
    """Full jitter, on top of what the server asked for: clients sent away together do not come back together."""
    error = state.outcome.exception() if state.outcome is not None else None
    return _BACKOFF(state) + ((error.retry_after or 0.0) if isinstance(error, TarryError) else 0.0)
