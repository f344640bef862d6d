"""The garbage collector, told what kind of program this is.

Thousands of waiting requests are young objects that die in order, by their counts; looking through them for cycles
every 700 allocations, as Python does of itself, costs a sixth of a publish. What is loaded at start never dies, so
nobody looks through it: neither while it is loaded, which would be a tenth of a start, nor later.

Nor are there so many young ones at a time that to look through them is felt: everybody stands still meanwhile, a
hundred thousand are 15 to 45 ms, and messages that fall due then are as late.
"""

import gc

_YOUNG, _MIDDLE, _OLD = 10_000, 500, 100


def still_collector() -> None:
    """To be called before the server is loaded."""
    gc.disable()


def tame_collector() -> None:
    """To be called once, when everything is loaded."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
