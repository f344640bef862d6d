"""HTTP, and the only place where a call is tried again.

Every call of the client may be repeated: a publish carries its idempotency key, and the contract makes the others safe.
A repeated claim may leave the first one's messages to their lease, which then costs them an attempt.

`async_transport` is the same for asyncio and trio; what both do with a request and an answer is written here.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from datetime import time as time_of_day
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar, cast
from uuid import UUID

import httpx
from attrs import evolve, frozen
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
from .errors import TarryError, Unavailable, refusal
from .processes import Owner, PerProcess
from .records import Receipt

T = TypeVar("T")

_BACKOFF = wait_random_exponential(multiplier=0.05, max=2)
"""Full jitter: anything from nothing to 50 ms, 100 ms, 200 ms ... 2 s."""
_KNOCK = wait_random_exponential(multiplier=0.05, max=0.5)
"""The same where nobody is at home: it burdens nobody, and until the next try all that falls due is late."""

RETRY = retry_if_exception_type(Unavailable)

LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=64)
HEADERS = {"User-Agent": f"tarry-client/{__version__}"}

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@frozen
class Reply:
    """A success."""

    document: dict[str, Any]
    size: int
    in_doubt: bool = False
    """An earlier try of this call, whose answer was lost, may have done what was asked."""


class Doubt:
    """Whether a try of a call whose answer was lost may have been carried out."""

    def __init__(self) -> None:
        self._doubtful = False

    def note(self, state: RetryCallState) -> None:
        """After each try that is followed by another."""
        error = state.outcome.exception() if state.outcome is not None else None
        self._doubtful |= isinstance(error, Unavailable) and may_have_run(error)

    def told(self, reply: Reply) -> Reply:
        """The answer in which the call ends, with it."""
        return evolve(reply, in_doubt=True) if self._doubtful else reply

    def tell(self, error: TarryError) -> None:
        """Writes it on the error that the call ends with."""
        error.in_doubt = self._doubtful or (isinstance(error, Unavailable) and may_have_run(error))
        if self._doubtful:
            error.add_note("An earlier try, whose answer was lost, may have done it.")


def may_have_run(error: Unavailable) -> bool:
    """False when the request never got there, or the server says that it did nothing."""
    never_sent = isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return not never_sent and error.status != 429 and error.problem.get("executed") is not False


def encode(document: Any, name: str = "") -> bytes:
    """JSON in UTF-8; `name` is what the document is called where a part of it is named.

    NaN, infinities and lone surrogates have no place in it: ValueError. What is no JSON value: TypeError.
    """
    try:
        text = _ENCODER.encode(document)
    except TypeError as error:
        raise TypeError(_foreign(document, name) or str(error)) from error
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{_torn(document) or 'the text'} has half a character in it ({error.object[error.start]!r}): surrogates "
            'come in pairs. Take bytes, or .encode("utf-8", "replace")'
        ) from error


def _torn(value: Any, path: str = "") -> str | None:
    """Where in a document the first text is that is not Unicode."""
    if isinstance(value, str):
        return path if any("\ud800" <= letter <= "\udfff" for letter in value) else None
    if isinstance(value, dict) and any(_torn(name, "x") for name in cast("Mapping[Any, Any]", value)):
        return f"a name in {path or 'the document'}"
    return next((found for name, member in _members(value, path) if (found := _torn(member, name)) is not None), None)


def _foreign(value: Any, path: str) -> str | None:
    """Where in a document the first value is that JSON has not, and what to write for it."""
    if value is None or isinstance(value, str | int | float):
        return None
    if isinstance(value, dict | list | tuple):
        return next((found for name, member in _members(value, path) if (found := _foreign(member, name))), None)
    remedy = next((text for kind, text in _REMEDIES if isinstance(value, kind)), "make it of what JSON has")
    return (
        f"{path or 'the document'}: an object of type {type(value).__name__} is not JSON serializable: {remedy}, "
        "or give Tarry(json=...) a function that writes bodies"
    )


_REMEDIES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (Decimal, "send str() or float() of it"),
    (UUID, "send str() of it"),
    ((date, time_of_day), "send its .isoformat()"),
    ((bytes, bytearray), "bytes are a body of their own, or base64 in one"),
    ((set, frozenset), "send a list of it"),
    (Receipt, "send its .document()"),
)


def _members(value: Any, path: str) -> Iterable[tuple[str, Any]]:
    """What lies in it, with where."""
    if isinstance(value, dict):
        members = cast("Mapping[Any, Any]", value).items()
        return ((f"{path}.{name}" if path else str(name), member) for name, member in members)
    if isinstance(value, list | tuple):
        return ((f"{path}[{index}]", item) for index, item in enumerate(cast("Iterable[Any]", value)))
    return ()


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
        self.url = checked(url)
        self._timeout = timeout
        self._deadline = deadline
        self._owned = client is None
        self._http = PerProcess(
            partial(httpx.Client, limits=LIMITS, headers=HEADERS) if client is None else lent(client)
        )
        self._sleep = sleep

    def close(self) -> None:
        """Closes the connections, unless they are the caller's own."""
        if self._owned:
            self._http.get().close()

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
        doubt = Doubt()
        retrying = Retrying(
            retry=RETRY,
            wait=pause,
            stop=stop if abandon is None else stop_any(stop, stop_when_event_set(abandon)),
            sleep=self._sleep if abandon is None else sleep_using_event(abandon),
            before_sleep=doubt.note,
            reraise=True,
        )
        try:
            return doubt.told(retrying(self._once, method, path, content, params, wait))
        except TarryError as error:
            doubt.tell(error)
            raise

    def _once(
        self, method: str, path: str, content: bytes | None, params: Mapping[str, str | int] | None, wait: float
    ) -> Reply:
        try:
            response = self._http.get().request(
                method,
                self.url + path,
                content=content,
                params=params,
                headers=headers_of(content),
                timeout=httpx.Timeout(self._timeout, read=self._timeout + wait),
            )
        except httpx.RequestError as error:
            raise unanswered(self.url, error) from error
        return read(self.url, response)


def lent(client: T) -> Callable[[], T]:
    """The caller's own pool of connections, in the process where it was given alone."""
    owner = Owner()

    def give() -> T:
        if not owner.here():
            raise RuntimeError(
                f"the httpx client was given in process {owner.pid}, and its connections cannot serve two: "
                "make the client, and Tarry around it, after the fork"
            )
        return client

    return give


def checked(url: str) -> str:
    """The server's address without a slash at its end."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f'"{url}" is not the address of a server: it begins with http:// or https://')
    return url.rstrip("/")


def headers_of(content: bytes | None) -> dict[str, str] | None:
    """What goes with a request's body."""
    return None if content is None else {"Content-Type": "application/json"}


def unanswered(url: str, error: httpx.RequestError) -> Unavailable:
    """For a request that was not answered."""
    return Unavailable(f"{url} does not answer: {error or type(error).__name__}")


def read(url: str, response: httpx.Response) -> Reply:
    """A success; raises what anything else means."""
    document = _document(response)
    if response.is_success and document is not None:
        return Reply(document, len(response.content))
    if document is None:
        kind = response.headers.get("Content-Type", "no content")
        document = {"detail": f"{url} answered {response.status_code} with {kind}: is it Tarry?"}
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


def pause(state: RetryCallState) -> float:
    """Full jitter, on top of what the server asked for: clients sent away together do not come back together."""
    error = state.outcome.exception() if state.outcome is not None else None
    away = isinstance(error, Unavailable) and isinstance(error.__cause__, httpx.ConnectError)
    return (_KNOCK if away else _BACKOFF)(state) + (
        (error.retry_after or 0.0) if isinstance(error, TarryError) else 0.0
    )
