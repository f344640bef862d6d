"""A call as a request of HTTP, and what its answer means. Pure."""

import base64
import json
import math
import ssl
from collections.abc import Callable
from typing import Any, cast

import httpx
import msgspec

from . import spans, strangers
from .calls import Call, Reply, Share
from .connections import Taker
from .errors import TarryError, Unavailable, refusal
from .http11 import Request, Response

_EXPOSITION = "text/plain; version="
"""How the type of Prometheus' text begins."""

_SAYS = ("type", "title", "detail")
"""A problem has one of them."""


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
    if (why := distrust(error)) is not None:
        return Unavailable(f"{url} is not trusted: {why}; SSL_CERT_FILE names the certificates to trust")
    told: BaseException = error
    while not str(told) and told.__cause__ is not None:  # on trio, what is wrong with a certificate
        told = told.__cause__
    return Unavailable(f"{url} does not answer: {str(told) or type(error).__name__}")


def distrust(error: BaseException | None) -> str | None:
    """What is wrong with the server's certificate, if that is why nothing was asked: to try again does not help."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__
    return None if error is None else error.verify_message.rstrip(".")


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
