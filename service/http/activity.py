"""/v1/activity and /v1/wheel: what this server did in the last minutes, and what its wheel holds."""

from ...wheel.entries import SLOTS
from ..activity import BAND, BOUNDS
from ..durations import format_time
from . import answers
from .asgi import Response
from .call import Call, answer


async def tell_activity(call: Call) -> Response:
    """What this server did in each second of the last five minutes, and how late messages were."""
    activity = call.activity
    lateness = answers.LatenessAnswer(step=1000 * BAND, bounds=list(BOUNDS), counts=activity.lateness())
    return answer(
        answers.ActivityAnswer(
            node=call.settings.node,
            at=format_time(call.node.clock.now()),
            step=1000,
            **activity.rates(),
            lateness=lateness,
        )
    )


async def tell_wheel(call: Call) -> Response:
    """What lies in the 3600 slots of this server's wheel."""
    pending, now = call.node.pending, call.node.clock.now()
    second = now // 1000
    # From now on, an hour ahead; then turned so that the first is the hour's first second.
    loads = [pending.wheel.load(second + ahead) or 0 for ahead in range(SLOTS)]
    place = second % SLOTS
    return answer(
        answers.WheelAnswer(
            node=call.settings.node,
            at=format_time(now),
            hand=place,
            entries=len(pending),
            behind=pending.behind,
            slots=loads[SLOTS - place :] + loads[: SLOTS - place],
        )
    )
