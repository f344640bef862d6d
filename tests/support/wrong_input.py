"""Where a request is wrong, as the answer to it says."""

from typing import Any

import httpx


def in_turn(pointer: str, *values: Any) -> list[tuple[str, Any]]:
    """A case for each value that is wrong there."""
    return [(pointer, value) for value in values]


def faults(response: httpx.Response, status: int = 400) -> list[str]:
    """The pointer or the query parameter of each."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return [error.get("pointer") or error["parameter"] for error in response.json()["errors"]]
