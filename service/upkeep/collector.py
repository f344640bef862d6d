"""Tunes the garbage collector to this kind of program.

Thousands of waiting requests are young objects that die in order, by reference counts; to scan them for cycles every
700 allocations, Python's default, costs a sixth of a publish. Objects loaded at start never die, so they are not
scanned: neither while they are loaded, which would be a tenth of a start, nor later.

The number of young objects is also bounded so that a scan goes unnoticed: everything stands still meanwhile. A hundred
thousand objects take 15 to 45 ms, by which messages that fall due then would be late.
"""

import gc

_YOUNG, _MIDDLE, _OLD = 10_000, 500, 100


def still_collector() -> None:
    """Turns collection off; call it before the server is loaded."""
    gc.disable()


def tame_collector() -> None:
    """Exempts all loaded objects and turns collection on; call it once, when everything is loaded."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
