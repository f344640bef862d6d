"""The line of one node to the database is down for a while, and the others go on."""

import trio

from ..proxy import SILENCES
from .faults import PATIENCE, moment
from .stage import Stage

_SHORTEST, _LONGEST = 0.3, 12.0
"""Seconds; a node that is cut off is dead to the others after five, and sessions are given up after three or so."""


async def lines(stage: Stage) -> None:
    """Cut, with every new one refused; or silent in one direction or in both, and what was said meanwhile is heard when
    it is over."""
    random = stage.crew.random("line")
    while stage.wanted:
        await moment(stage, random)
        number, how = random.randrange(len(stage.proxies)), random.choice((None, *SILENCES))
        name, what, proxy = f"n{number}", f"line silent: {how}" if how else "line cut", stage.proxies[number]
        if not stage.begin(what, name):
            break
        try:
            if how is None:
                proxy.shut()
            else:
                proxy.hush(how)
            await trio.sleep(random.uniform(_SHORTEST, _LONGEST))
        finally:
            proxy.open()
        if not await stage.journal.reached("publish:ok", 1, 3 * PATIENCE):
            stage.stuck("the service did not come back in time")
        stage.end(what, name)
        await stage.journal.reached("ack:ok", random.randrange(1, 100), PATIENCE)
