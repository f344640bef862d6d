"""Galera: whether a node commits writes, and whether it has what the other nodes have committed.

All nodes take writes. A node that lost the majority, or is still being brought up to date, accepts logins and tells the
time, but refuses every statement on a table (1047). When a node acknowledges a commit, the other nodes have received
it, but may apply it a moment later: a session that changes to another node waits for that.
"""

from collections.abc import Mapping, Sequence

from .group import FEWEST, ServerGroup
from .server_settings import text

STATES = (
    b"SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready', 'wsrep_cluster_status', 'wsrep_local_state_comment',"
    b" 'wsrep_cluster_state_uuid', 'wsrep_cluster_size')"
)
_NOBODY = "00000000-0000-0000-0000-000000000000"
CATCH_UP = (b"SET wsrep_sync_wait = 1", b"SELECT 1", b"SET wsrep_sync_wait = DEFAULT")
"""The second statement waits until the node has applied all that the cluster had committed when it was sent."""


def why_cut_off(states: Sequence[Sequence[object]]) -> str | None:
    """Says, from the rows of `STATES`, why nothing can be written here. None: it can, or there is no Galera."""
    told = _read(states)
    if told.get("wsrep_ready", "ON") == "ON":
        return None
    status, state = told.get("wsrep_cluster_status"), told.get("wsrep_local_state_comment")
    if status != "Primary":
        return f"its Galera has no majority here (wsrep_cluster_status is {status}), and nothing is committed"
    return f"it is not up to date in its Galera (wsrep_local_state_comment is {state}), and takes writes when it is"


def describe(states: Sequence[Sequence[object]]) -> ServerGroup | None:
    """The Galera of the connected node, from the rows of `STATES`; None if the node has found none."""
    told = _read(states)
    name, size = told.get("wsrep_cluster_state_uuid", _NOBODY), int(told.get("wsrep_cluster_size", 0))
    if name == _NOBODY:
        return None
    advice = [f"of {size} nodes none may be lost: a majority wants {FEWEST} at the least"] if size < FEWEST else []
    return ServerGroup(name, several_primaries=True, members=size, text=f"Galera {name} of {size} nodes", advice=advice)


def _read(states: Sequence[Sequence[object]]) -> Mapping[str, str]:
    return {text(name): text(value) for name, value in states}
