"""A message's content as others read it: what is kept as JSON is JSON only if it can be read.

Every door checks what comes in. What lies in a table all the same, by somebody's own SQL or from a program of before,
must not spoil the answer that it is a part of: there it goes as bytes, or not at all.
"""

from typing import Final

import msgspec

BYTES: Final = "application/octet-stream"
"""The type of bytes of which nothing else is known."""

_read = msgspec.json.Decoder(msgspec.Raw).decode
_read_headers = msgspec.json.Decoder(dict[str, str]).decode
_WRONG = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def as_json(body: bytes) -> msgspec.Raw | None:
    """As a part of an answer; None where it is not one JSON value in UTF-8.

    Of a body that is well a third of a microsecond: it is asked for each message that is handed out.
    """
    try:
        raw = _read(body)
        if not body.isascii():
            body.decode()
    except _WRONG:
        return None
    return raw


def headers_of(headers: bytes | None) -> dict[str, str] | None:
    """Names and values; None where there are none, or where they are no JSON object of texts."""
    if headers is None:
        return None
    try:
        return _read_headers(headers)
    except _WRONG:
        return None
