"""Makes the drawing of a message's life in ARCHITECTURE.md from the table in `tarry.store.states`.

PYTHONPATH=.tree:tests .venv/bin/python -P -m support.state_drawing
"""

import re
from collections import defaultdict
from pathlib import Path

from tarry.store.states import LIFE, State

DOCUMENT = Path(__file__).parents[2] / "ARCHITECTURE.md"
PLACES: dict[State, str] = {
    "scheduled": "delay",
    "cancelled": "cancelled",
    "suppressed": "cancelled, with that reason",
    "published": "message, ahead of the group's cursor",
    "claimed": "claim",
    "acked": "delivery",
    "retrying": "retry",
    "returned": "redelivery, ahead of the group's cursor",
    "parked": "parked",
    "dead": "dead",
    "skipped": "behind the cursor, whose counter has it",
    "expired": "behind the cursor: past its time, or taken by retention",
    "passed": "behind the cursor, which a seek has moved",
    "purged": "nowhere",
}
"""The table where a message of this state is found."""
_DRAWING = re.compile(r"(?<=```mermaid\n)stateDiagram.*?(?=```)", re.DOTALL)


def draw() -> str:
    """The state diagram: each state with its place, and an arrow with all events that lead from one to another."""
    events: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for (state, event), after in LIFE.items():
        events[state or "[*]", after].append(event)
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{state} ({place})" as {state}' for state, place in PLACES.items()]
    lines += [f"    {state} --> {after}: {', '.join(some)}" for (state, after), some in events.items()]
    return "\n".join(lines) + "\n"


def drawn() -> str:
    """The drawing that is in the document."""
    found = _DRAWING.search(DOCUMENT.read_text("utf-8"))
    assert found is not None, "there is none"
    return found[0]


if __name__ == "__main__":
    DOCUMENT.write_text(_DRAWING.sub(lambda _: draw(), DOCUMENT.read_text("utf-8"), count=1), "utf-8")
