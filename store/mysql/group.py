"""Group Replication: whether writes to a member reach its group.

A primary that lost the majority goes on taking writes. Their COMMITs wait until the majority is back, for ever unless
`group_replication_unreachable_majority_timeout` limits it; meanwhile the other members elect another primary. And a
member that was restarted outside of its group commits transactions that the group never gets.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from .server_settings import text

if TYPE_CHECKING:
    from .connection import Connection

MEMBERS = b"SELECT MEMBER_ID = @@global.server_uuid, MEMBER_STATE FROM performance_schema.replication_group_members"
"""For each member whether it is this server, and its state; no rows without a group. Needs SELECT on that table."""
GRANT = "GRANT SELECT ON performance_schema.replication_group_members"
FEWEST = 3
"""The smallest number of members of which one may be lost."""


def why_cut_off(members: Sequence[Sequence[object]]) -> str | None:
    """Says, from the rows of `MEMBERS`, why nothing should be written here. None: writes reach the group, or there is
    no group."""
    states = [(bool(own), text(state)) for own, state in members]
    if not states:
        return None
    own = next((state for is_own, state in states if is_own), "OFFLINE")
    if own == "RECOVERING":
        return "it is RECOVERING in its group: it fetches what it lacks, and may take writes when it is ONLINE"
    if own != "ONLINE":
        return f"it is {own} in its group: START GROUP_REPLICATION there, or RESET PERSIST its settings to do without"
    reached = sum(state != "UNREACHABLE" for _, state in states)
    if 2 * reached > len(states):
        return None
    return f"its group has no majority: of {len(states)} members it reaches {reached}, and no COMMIT ends"


@frozen
class ServerGroup:
    """What one member tells about its group, for the doctor."""

    name: str
    several_primaries: bool
    members: int
    """0 when this user may not see them."""
    text: str
    advice: Sequence[str]
    """What should be set or repaired, a sentence each."""
    all_named: bool = True
    """Whether a DSN should name all members."""


_SETTINGS = b"SHOW GLOBAL VARIABLES LIKE 'group\\_replication\\_%'"
_DETAILS = (
    b"SELECT CONCAT(MEMBER_HOST, ':', MEMBER_PORT), MEMBER_STATE, MEMBER_ROLE"
    b" FROM performance_schema.replication_group_members ORDER BY 1"
)
_EVENTUAL = (
    "group_replication_consistency is EVENTUAL: a new primary answers before it has all that the old one committed."
    " SET PERSIST group_replication_consistency = BEFORE_ON_PRIMARY_FAILOVER on each member"
)
_WAITS_FOR_EVER = (
    "group_replication_unreachable_majority_timeout is 0: a primary that lost the majority holds its COMMITs until that"
    " is back. SET PERSIST group_replication_unreachable_majority_timeout = 10 on each member, so that it gives them up"
)
_SEVERAL = (
    "it has several primaries, and what one of them has locked the others give out: name one host in the DSN of all"
    " servers, or SELECT group_replication_switch_to_single_primary_mode()"
)


async def describe(connection: "Connection") -> ServerGroup | None:
    """The group of the connected server; None if it is in none."""
    settings = {text(name): text(value) for name, value in await connection.fetch(_SETTINGS)}
    if not settings.get("group_replication_group_name"):
        return None
    advice = [
        told
        for name, value, told in (
            ("single_primary_mode", "OFF", _SEVERAL),
            ("consistency", "EVENTUAL", _EVENTUAL),
            ("unreachable_majority_timeout", "0", _WAITS_FOR_EVER),
        )
        if settings.get(f"group_replication_{name}") == value
    ]
    members: list[tuple[str, ...]] = []
    if connection.cluster is not None:
        members = [tuple(map(text, row)) for row in await connection.fetch(_DETAILS)]
        if len(members) < FEWEST:
            advice.append(f"of {len(members)} members none may be lost: a majority wants {FEWEST} at the least")
        advice += [f"{place} is {state}" for place, state, _ in members if state != "ONLINE"]
    else:
        advice.append(
            f"a lost majority shows when a COMMIT has had no answer for 15 s. To see it sooner: {GRANT} to this user"
        )
    told = (
        "consistency",
        "unreachable_majority_timeout",
        "member_expel_timeout",
        "exit_state_action",
        "flow_control_mode",
    )
    told_of = ", ".join(
        [f"group {settings['group_replication_group_name']}"]
        + [f"{place} {role or state}" for place, state, role in members]
        + [f"{name} {settings[key]}" for name in told if (key := f"group_replication_{name}") in settings]
    )
    several = settings.get("group_replication_single_primary_mode") == "OFF"
    name = settings["group_replication_group_name"]
    return ServerGroup(name, several, len(members), told_of, advice, all_named=not several)
