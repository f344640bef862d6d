"""The key that a client brings: given, or in the environment, or in a file that is named there. It is never shown."""

import os
import re
from collections.abc import Mapping

from ..store.environment import secret

_FORM = re.compile(r"[!-~]{1,4096}")


def key_from(environment: Mapping[str, str] = os.environ) -> str | None:
    """What `TARRY_KEY`, or the file in `TARRY_KEY_FILE`, holds. Raises ValueError."""
    found = secret("TARRY_KEY", environment)
    return found[0] or None if found else None


def authorization(key: str | None, *, own: bool) -> dict[str, str]:
    """The header for requests; none without a key. `own`: the connections are the client's own, so that the
    environment's key is for them. Raises ValueError."""
    key = key_from() if key is None and own else key
    if key is None:
        return {}
    if _FORM.fullmatch(key) is None:
        raise ValueError("the key is no key: `tarry keys create` prints one, tarry_... and no space in it")
    return {"Authorization": f"Bearer {key}"}
