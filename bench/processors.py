"""Processors kept busy by programs that share nothing else with what is measured."""

import sys

import trio

_PROGRAM = """
import sys, time
end, share = time.monotonic() + float(sys.argv[1]), float(sys.argv[2])
while time.monotonic() < end:
    rests = time.monotonic() + 0.02 * share
    while time.monotonic() < rests:
        pass
    time.sleep(0.02 * (1 - share))
"""


async def keep_busy(processors: float, seconds: float) -> None:
    """So many of them, the last one in part where that is no whole number: of each 20 ms its share."""
    async with trio.open_nursery() as nursery:
        while processors > 0:
            share = min(1.0, processors)
            nursery.start_soon(trio.run_process, [sys.executable, "-c", _PROGRAM, str(seconds), str(share)])
            processors -= share
