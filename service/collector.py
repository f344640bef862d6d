"""The garbage collector, told what kind of program this is.

Thousands of waiting requests are young objects that die in order, by their counts; looking through them for cycles
every 700 allocations, as Python does of itself, costs a sixth of a publish. What is loaded at start never dies.
"""

import gc

_YOUNG, _MIDDLE, _OLD = 100_000, 50, 100


def tame_collector() -> None:
    """To be called once, when everything is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
