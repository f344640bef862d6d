"""The commands `keys create|list|revoke`, which manage the keys of clients.

They work on the store itself, beside a server that may be running: it accepts a new key, and refuses a revoked one,
within 5 s.
"""

import re
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from cyclopts import App, Parameter

from ...store.errors import DuplicateKey
from ...store.operating.keys import MAX_SCOPES, Key, add, all_keys, revoke
from ...store.ports import Guest
from ..access.scopes import wrong_scope
from ..access.tokens import digest, make_token
from .flags import flag
from .near import hint
from .printing import NotThere, UsageError, note, print_items, print_json, print_line
from .rendering import time_text
from .store_options import StoreOptions

keys = App(name="keys", help="Make, list and revoke the keys by which clients get in.")

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)

Name = Annotated[str, Parameter(help="The key's name, which the server's log tells.")]


Json = Annotated[bool, flag("One JSON line.")]

_HERE = StoreOptions()


@keys.command
def create(
    name: Name,
    /,
    *,
    scope: Annotated[
        list[str],
        flag(
            "What it may do; may be repeated: publish:TOPIC, consume:TOPIC/GROUP, operate:TOPIC, read:TOPIC, admin. A"
            " name may end with a star."
        ),
    ],
    json: Json = False,
    place: StoreOptions = _HERE,
) -> int:
    """Make a key and print it, this once.

    Its digest is written to the store: no server needs to run, and a running one accepts the key within 5 s.
    """
    if _NAME.fullmatch(name) is None:
        raise UsageError("a key's name is 1 to 64 letters, digits, dots, underscores and hyphens")
    for text in scope:
        if wrong := wrong_scope(text):
            raise UsageError(f"--scope {wrong}")
    scopes = tuple(dict.fromkeys(scope))
    if len(" ".join(scopes)) > MAX_SCOPES:
        raise UsageError(f"the scopes of a key have {MAX_SCOPES} bytes together at most: use stars, or several keys")
    token = make_token()

    async def work(guest: Guest) -> None:
        key = Key(name, digest(token), scopes, await guest.now())
        await guest.write(partial(add, key=key))

    try:
        place.run(work)
    except DuplicateKey:
        raise UsageError(f"there is a key {name!r}, or there was: a name is given once, take another") from None
    note("Keep it now: it is shown this once, and is not in the store.")
    if json:
        print_json({"name": name, "scopes": list(scopes), "key": token})
    else:
        print_line(token)
    return 0


@keys.command(name="list")
def list_keys(*, json: Annotated[bool, flag("One JSON line per key.")] = False, place: StoreOptions = _HERE) -> int:
    """List the keys, revoked ones too, with their scopes.

    The keys themselves are stored nowhere.
    """

    async def work(guest: Guest) -> list[Key]:
        return await guest.read(all_keys)

    records: list[dict[str, Any]] = []
    for key in place.run(work):
        revoked_at = None if key.revoked_at is None else _time(key.revoked_at)
        times = {"created_at": _time(key.created_at), "revoked_at": revoked_at}
        records.append({"name": key.name, "scopes": list(key.scopes), **times})
    rows = [(one["name"], " ".join(one["scopes"]), one["created_at"], one["revoked_at"]) for one in records]
    print_items(records, ("name", "scopes", "created at", "revoked at"), rows, json=json)
    return 0


@keys.command(name="revoke")
def revoke_key(name: Name, /, *, json: Json = False, place: StoreOptions = _HERE) -> int:
    """End a key for good.

    A running server refuses it within 5 s.
    """

    async def work(guest: Guest) -> str:
        now = await guest.now()
        result = await guest.write(partial(revoke, name=name, now=now))
        if result == "unknown":
            known = [key.name for key in await guest.read(all_keys) if key.revoked_at is None]
            raise NotThere(f"there is no key {name!r}{hint(name, known)}")
        return result

    result = place.run(work)
    if json:
        print_json({"name": name, "result": result})
    else:
        note("revoked" if result == "revoked" else "it was revoked before")
    return 0


def _time(ms: int) -> str:
    return time_text(datetime.fromtimestamp(ms / 1000, UTC))
