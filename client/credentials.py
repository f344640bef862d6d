"""The API key that a client sends: as given, from the environment, or from a file named there. It is never shown."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

_KEY, _FILE = "TARRY_KEY", "TARRY_KEY_FILE"
_FORM = re.compile(r"[!-~]{1,4096}")


def key_from(environment: Mapping[str, str] = os.environ) -> str | None:
    """The key in `TARRY_KEY`, or in the file named by `TARRY_KEY_FILE`. Raises ValueError."""
    if _KEY in environment and _FILE in environment:
        raise ValueError(f"{_FILE} and {_KEY} are both set: leave one of them out")
    if (file := environment.get(_FILE)) is None:
        return environment.get(_KEY) or None
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise ValueError(f"{_FILE}: {file} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def authorization(key: str | None, *, own: bool) -> dict[str, str]:
    """The `Authorization` header for requests; none without a key. `own`: the connections are the client's own, so the
    environment's key is for them. Raises ValueError."""
    key = key_from() if key is None and own else key
    if key is None:
        return {}
    if _FORM.fullmatch(key) is None:
        raise ValueError("the key is no key: `tarry keys create` prints one, tarry_... and no space in it")
    return {"Authorization": f"Bearer {key}"}
