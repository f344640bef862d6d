"""Text as columns hold it: UTF-8 bytes, compared byte by byte."""

from typing import overload


@overload
def encode(text: str) -> bytes: ...
@overload
def encode(text: None) -> None: ...
@overload
def encode(text: str | None) -> bytes | None: ...
def encode(text: str | None) -> bytes | None:
    """For a column."""
    return None if text is None else text.encode()


def decode(value: bytes | None) -> str | None:
    """From a column."""
    return None if value is None else value.decode()
