"""HTTP, and the only place where a call is tried again.

Every call of the client may be repeated: a publish carries its idempotency key, and the contract makes the others safe.
A repeated claim may leave the first one's messages to their lease, which then costs them an attempt.

`async_transport` is the same for asyncio and trio; what both do with a request and an answer is written here.
"""

import base64
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar, cast

import httpx
import msgspec
from attrs import evolve
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

from .. import __version__  # `mypy .` ends here: use `make check`
from . import spans, strangers
from .calls import Call, Page, Reply, Share
from .connections import MAX_IDLE, Connections, Exchanges, Taker
from .coroutines import drive
from .credentials import authorization
from .durations import Seconds, seconds
from .errors import TarryError, Unavailable, refusal
from .http11 import Request, Response
from .lent import Lent, lent, wants_httpx
from .networks import ThreadNetwork
from .processes import PerProcess
from .sharing import Sharing

T = TypeVar("T")

_BACKOFF = wait_random_exponential(multiplier=0.05, max=2)
"""Full jitter: anything from nothing to 50 ms, 100 ms, 200 ms ... 2 s."""
_KNOCK = wait_random_exponential(multiplier=0.05, max=0.5)
"""The same where nothing listens: trying burdens no server, and all that falls due before the next try is late."""

RETRY = retry_if_exception_type(Unavailable)

_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, TimeoutError)

_EXPOSITION = "text/plain; version="
"""How the type of Prometheus' text begins."""

_SAYS = ("type", "title", "detail")
"""A problem has one of them."""

LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE)
HEADERS = {"User-Agent": f"tarry-client/{__version__}"}


class Doubt:
    """Whether a try of a call whose answer was lost may have been carried out."""

    def __init__(self) -> None:
        self._doubtful = False

    def note(self, state: RetryCallState) -> None:
        """After each try that is followed by another."""
        error = state.outcome.exception() if state.outcome is not None else None
        self._doubtful |= isinstance(error, Unavailable) and may_have_run(error)

    def mark(self, reply: Reply) -> Reply:
        """The answer that ends the call, with the doubt on it."""
        return evolve(reply, in_doubt=True) if self._doubtful else reply

    def mark_error(self, error: TarryError) -> None:
        """Puts it on the error that ends the call."""
        error.in_doubt = self._doubtful or (isinstance(error, Unavailable) and may_have_run(error))
        if self._doubtful:
            error.add_note("An earlier try, whose answer was lost, may have done it.")


class Tries:
    """The first of them has failed before they were counted."""

    def __init__(self, first: Unavailable) -> None:
        self._first: Unavailable | None = first

    def begin(self) -> None:
        """Raises the error of the first, once."""
        first, self._first = self._first, None
        if first is not None:
            raise first


def may_have_run(error: Unavailable) -> bool:
    """False when the request never got there, or the server says that it did nothing."""
    never_sent = isinstance(error.__cause__, _NEVER_SENT)
    return not never_sent and error.status != 429 and error.problem.get("executed") is not False


class Transport:
    """Calls to one server. Safe to share between threads."""

    def __init__(
        self,
        url: str,
        *,
        timeout: Seconds,
        deadline: Seconds,
        key: str | None = None,
        client: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = checked(url)
        self._timeout = seconds(timeout, "timeout")
        self._deadline = seconds(deadline, "deadline")
        self._owned = client is None
        headers = authorization(key, own=self._owned)
        self._http: PerProcess[Exchanges] = PerProcess(
            partial(_own, self.url, self._timeout, HEADERS | headers)
            if client is None
            else lent(Lent(client, self.url, timeout=self._timeout, headers=headers))
        )
        self._sleep = sleep
        self._sharing = Sharing(self)

    def close(self) -> None:
        """Closes the connections, unless they are the caller's own."""
        if self._owned:
            drive(self._http.get().close())

    def send(self, call: Call[T], *, deadline: float | None = None, abandon: threading.Event | None = None) -> T:
        """Makes a call; again while the server is away, until `deadline` seconds have passed or `abandon` is set."""
        limit = 0.0 if call.once else self._deadline if deadline is None else deadline
        began = time.monotonic()
        try:
            return call.read(self._try(call, limit))
        except Unavailable as error:
            first = error
        return self._send_again(call, first, limit - (time.monotonic() - began), abandon)

    def _send_again(self, call: Call[T], first: Unavailable, limit: float, abandon: threading.Event | None) -> T:
        """After a try that has failed. `Retrying` costs what a call does, so those that succeed go without."""
        stop = stop_before_delay(limit)
        doubt = Doubt()
        tries = Tries(first)
        retrying = Retrying(
            retry=RETRY,
            wait=pause,
            stop=stop if abandon is None else stop_any(stop, stop_when_event_set(abandon)),
            sleep=self._sleep if abandon is None else sleep_using_event(abandon),
            before_sleep=doubt.note,
            reraise=True,
        )

        def attempt() -> Reply:
            tries.begin()
            return self._try(call, limit)

        try:
            reply = retrying(attempt)
        except TarryError as error:
            doubt.mark_error(error)
            raise
        return call.read(doubt.mark(reply))

    def _try(self, call: Call[Any], limit: float) -> Reply:
        if call.share is None:
            return self.once(call)
        return self._sharing.ask(call, call.share, max(limit, self._timeout))

    def pages(self, call: Call[Page[T]]) -> Iterator[T]:
        """Items page by page; each page is asked for when those of the one before have been taken."""
        following: Call[Page[T]] | None = call
        while following is not None:
            page = self.send(following)
            yield from page.items
            following = page.next

    def once(self, call: Call[Any]) -> Reply:
        """One try of a call. Raises `TarryError`."""
        try:
            response = drive(self._http.get().exchange(alone(call)))
        except httpx.RequestError as error:
            raise unanswered(self.url, error) from error
        return read(self.url, response)

    def stream(self, share: Share, content: bytes, took: Callable[[bytes], None]) -> None:
        """One try of a request that calls share; `took` is given the answer as it comes. Raises `TarryError`."""
        http = self._http.get()
        try:
            response = drive(http.exchange(together(share, content), taker(self.url, share, took)))
        except httpx.RequestError as error:
            raise unanswered(self.url, error) from error
        check_shared(self.url, response, share)


def _own(url: str, timeout: float, headers: dict[str, str]) -> Exchanges:
    """The client's own connections."""
    if wants_httpx(url):
        return Lent(httpx.Client(limits=LIMITS), url, timeout=timeout, headers=headers)
    return Connections(ThreadNetwork(), url, timeout=timeout, headers=headers)


def checked(url: str) -> str:
    """The server's address without a slash at its end."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f'"{url}" is not the address of a server: it begins with http:// or https://')
    try:
        httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f'"{url}" is not the address of a server: {error}') from None
    return url.rstrip("/")


def alone(call: Call[Any]) -> Request:
    """The request of a call."""
    kind = None if call.content is None else "application/json"
    headers = {**call.headers, **ways} if (ways := spans.ways()) and call.headers else ways or call.headers
    return Request(call.method, call.path, call.content, kind, params=call.params, headers=headers, wait=call.wait)


def together(share: Share, content: bytes) -> Request:
    """A request that calls share."""
    return Request("POST", share.path, content, share.form.media_type)


def taker(url: str, share: Share, took: Taker) -> Callable[[Response], Taker]:
    """Has `took` given the answers to those who share a request, if that is what they are."""

    def begun(response: Response) -> Taker:
        check_shared(url, response, share)
        return took

    return begun


def check_shared(url: str, response: Response, share: Share) -> None:
    """Raises `TarryError` unless it has an answer for each of those who share it."""
    if not response.is_success:
        read(url, response)
    if not response.headers.get("content-type", "").startswith(share.form.media_type):
        raise TarryError(strangers.told(url, response), status=response.status)


def unanswered(url: str, error: httpx.RequestError) -> Unavailable:
    """The error of a request that was not answered."""
    told: BaseException = error
    while not str(told) and told.__cause__ is not None:  # on trio, what is wrong with a certificate
        told = told.__cause__
    return Unavailable(f"{url} does not answer: {str(told) or type(error).__name__}")


def read(url: str, response: Response) -> Reply:
    """A success. Raises `TarryError` for any other answer."""
    if response.is_success and response.headers.get("content-type", "").startswith(_EXPOSITION):
        return Reply({}, len(response.content), text=response.content.decode("utf-8"))
    document = _document(response)
    if response.is_success and document is not None:
        return Reply(document, len(response.content))
    if response.is_success:
        raise TarryError(strangers.told(url, response), status=response.status)
    if document is None or document.keys().isdisjoint(_SAYS):
        document = {**(document or {}), "detail": strangers.told(url, response)}
    raise refusal(response.status, document, _retry_after(response))


def _document(response: Response) -> dict[str, Any] | None:
    try:
        document = _by_pieces(response.content)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None


def _by_pieces(content: bytes) -> Any:
    """An answer; where it has a body that `json` cannot read, or not write again, such as a number of 5,000 digits or
    1e999, its message alone has bytes in place of it, as one whose body is no JSON has, and the others are as they
    are."""
    try:
        return _decode(content.decode())
    except (ValueError, RecursionError):
        if content[:1] == b"[":
            return [_by_pieces(bytes(raw)) for raw in _items(content)]
    record: dict[str, Any] = {}
    for name, raw in _members(content).items():
        try:
            record[name] = _decode(bytes(raw).decode()) if name == "body" else _by_pieces(bytes(raw))
        except (ValueError, RecursionError):
            if name != "body":
                raise
            record["body_base64"], record["content_type"] = base64.b64encode(raw).decode(), "application/json"
    return record


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError("a number beyond a float")
    return number


_decode = json.JSONDecoder(parse_float=_finite).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def _retry_after(response: Response) -> float | None:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):  # a date is allowed too; Tarry sends seconds
        return None


def pause(state: RetryCallState) -> float:
    """Full jitter, on top of what the server asked for: clients sent away together do not come back together."""
    error = state.outcome.exception() if state.outcome is not None else None
    away = isinstance(error, Unavailable) and isinstance(error.__cause__, httpx.ConnectError)
    return (_KNOCK if away else _BACKOFF)(state) + (
        (error.retry_after or 0.0) if isinstance(error, TarryError) else 0.0
    )
