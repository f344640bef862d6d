"""The garbage collector, told what kind of program this is.

Thousands of waiting requests are young objects that die in order, by their counts; looking through them for cycles
every 700 allocations, as Python does of itself, costs a sixth of a publish. What is loaded at start never dies, so
nobody looks through it: neither while it is loaded, which would be a tenth of a start, nor later.
"""

import gc

_YOUNG, _MIDDLE, _OLD = 100_000, 50, 100


def still_collector() -> None:
    """To be called before the server is loaded."""
    gc.disable()


def tame_collector() -> None:
    """To be called once, when everything is loaded."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
