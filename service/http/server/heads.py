"""Encodes the heads of answers, and whole answers to requests that are refused unread."""

import time
from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus

from ..problems import MEDIA_TYPE, Problem

Headers = Sequence[tuple[bytes, bytes]]

_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
CONTINUE = _LINES[100] + b"\r\n"

_date = (0, b"")


def head(status: int, headers: Headers) -> bytes:
    """The head of an answer, with its date. Raises `ValueError` for a header with a line break, which would end it
    early."""
    fields = b"\r\n".join([name + b": " + value for name, value in headers])
    if fields.count(b"\n") != (breaks := max(0, len(headers) - 1)) or fields.count(b"\r") != breaks or b"\0" in fields:
        raise ValueError("a header of an answer has a line break or a NUL in it")
    line = _LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
    return line + fields + (b"\r\ndate: " if fields else b"date: ") + _now() + b"\r\n\r\n"


def _now() -> bytes:
    global _date
    second = int(time.time())
    if second != _date[0]:
        _date = second, formatdate(second, usegmt=True).encode()
    return _date[1]


def refusal(problem: Problem) -> bytes:
    """The whole answer to a request that was not read; it is the last on its connection."""
    body = problem.encoded()
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        *[(name.lower().encode(), value.encode()) for name, value in problem.headers.items()],
        (b"connection", b"close"),
    ]
    return head(problem.status, headers) + body
