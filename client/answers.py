"""Turns a call into an HTTP request, and the response into an answer or an error. Pure."""

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
"""The beginning of the content type of text for Prometheus."""

_SAYS = ("type", "title", "detail")
"""Members of a problem, which has at least one of them."""


def alone(call: Call[Any]) -> Request:
    """The request for a call that goes alone."""
    kind = None if call.content is None else "application/json"
    headers = {**call.headers, **ways} if (ways := spans.ways()) and call.headers else ways or call.headers
    return Request(call.method, call.path, call.content, kind, params=call.params, headers=headers, wait=call.wait)


def together(share: Share, content: bytes) -> Request:
    """The request that calls share."""
    return Request("POST", share.path, content, share.form.media_type)


def taker(url: str, share: Share, took: Taker) -> Callable[[Response], Taker]:
    """Checks the head of a response, and then has `took` given the answers to a shared request."""

    def begun(response: Response) -> Taker:
        check_shared(url, response, share)
        return took

    return begun


def check_shared(url: str, response: Response, share: Share) -> None:
    """Raises `TarryError` unless the response is the answer to a shared request."""
    if not response.is_success:
        read(url, response)
    if not response.headers.get("content-type", "").startswith(share.form.media_type):
        raise TarryError(strangers.told(url, response), status=response.status)


def unanswered(url: str, error: httpx.RequestError) -> Unavailable:
    """The error for a request that got no answer."""
    if (why := distrust(error)) is not None:
        return Unavailable(f"{url} is not trusted: {why}; SSL_CERT_FILE names the certificates to trust")
    told: BaseException = error
    while not str(told) and told.__cause__ is not None:  # on trio a certificate's error has its text in the cause
        told = told.__cause__
    return Unavailable(f"{url} does not answer: {str(told) or type(error).__name__}")


def distrust(error: BaseException | None) -> str | None:
    """What is wrong with the server's certificate, if that is why nothing was sent: trying again does not help."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__
    return None if error is None else error.verify_message.rstrip(".")


def read(url: str, response: Response) -> Reply:
    """Reads a successful response. Raises `TarryError` for any other."""
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
    """Decodes an answer. A body that `json` cannot read, or could not write again, such as a number of 5,000 digits or
    1e999, becomes bytes, as if its message had a body that is no JSON; the other messages are as they are."""
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
