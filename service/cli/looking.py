"""`clients`: who is there, and what each holds."""

from collections.abc import Iterable, Mapping
from typing import Any

from ...store.printable import print_table
from .printing import print_json
from .server import Server

_HERE = Server()
_ALIVE = {True: "yes", False: "no", None: ""}


def clients(*, server: Server = _HERE) -> int:
    """List the clients, whether they live, and the queues they hold claims of (how many) or own (*)."""
    with server.client() as tarry:
        found = list(tarry.clients())
    if server.json:
        for one in found:
            print_json(one)
        return 0
    rows: list[tuple[Any, ...]] = []
    for one in found:
        claims = sum(held["claims"] for held in one["holds"])
        alive = _ALIVE[one["alive"]]
        rows.append((one["client"], one["registered_at"], one["renewed_at"], alive, claims, _holds(one["holds"])))
    print_table(("client", "registered", "renewed", "alive", ">claims", "holds"), rows)
    return 0


def _holds(holds: Iterable[Mapping[str, Any]]) -> str:
    """`payments/ledger: 0* (1), 2*`, a group after the other."""
    groups: dict[str, list[str]] = {}
    for held in holds:
        queue = f"{held['queue']}{'*' if held['owner'] else ''}"
        if held["claims"]:
            queue += f" ({held['claims']})"
        groups.setdefault(f"{held['topic']}/{held['group']}", []).append(queue)
    return "; ".join(f"{group}: {', '.join(queues)}" for group, queues in groups.items())
