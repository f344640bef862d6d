"""Processors kept busy by programs that share nothing else with what is measured."""

import sys
import time

import trio

_PROGRAM = """
import sys, time
end, share = float(sys.argv[1]), float(sys.argv[2])
while time.time() < end:
    rests = time.monotonic() + 0.02 * share
    while time.monotonic() < rests:
        pass
    time.sleep(0.02 * (1 - share))
"""


async def keep_busy(processors: float, begin: float, end: float) -> None:
    """So many of them, from one time to another, Unix seconds; where that is no whole number the last one in part, its
    share of each 20 ms."""
    await trio.sleep(max(0.0, begin - time.time()))
    async with trio.open_nursery() as nursery:
        while processors > 0:
            share = min(1.0, processors)
            nursery.start_soon(trio.run_process, [sys.executable, "-c", _PROGRAM, str(end), str(share)])
            processors -= share
