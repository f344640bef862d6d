"""The address of the server: as given, from the environment, or the default on this machine."""

import os
from collections.abc import Mapping

import httpx

_DEFAULT = "http://127.0.0.1:8277"
_VARIABLE = "TARRY_URL"


def address_of(url: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The address without a slash at its end; for None that in `TARRY_URL`, or the default. Raises ValueError."""
    if url is not None:
        return _checked(url)
    try:
        return _checked(environment.get(_VARIABLE) or _DEFAULT)
    except ValueError as error:
        raise ValueError(f"{_VARIABLE}: {error}") from None


def _checked(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f'"{url}" is not the address of a server: it begins with http:// or https://')
    try:
        httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f'"{url}" is not the address of a server: {error}') from None
    return url.rstrip("/")
