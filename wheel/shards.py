"""Shards: the sixteen parts into which entries fall by their low bits, so that several wheels can share them out.

The shard of an entry is its low 4 bits; of a negative one, those of its complement.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

SHARDS = 16

# Of the eight bytes of an entry, the lowest.
_LOW = 0 if sys.byteorder == "little" else 7


def shard_of(entry: int) -> int:
    """The shard of an entry, 0 to 15."""
    return (entry if entry >= 0 else ~entry) & (SHARDS - 1)


def outside(entries: array[int], shards: AbstractSet[int]) -> Sequence[int]:
    """For each of these entries, whether it is of a shard other than these: 1 or 0."""
    # By bytes: an eighth of the time that it takes to look at a million entries one by one.
    octets = memoryview(entries).cast("B")
    lows, tops = bytes(octets[_LOW::8]), bytes(octets[7 - _LOW :: 8])
    others = _by_lowest_byte(frozenset(shards))
    if max(tops, default=0) < 128:
        return lows.translate(others)
    return [others[low if top < 128 else ~low & 255] for low, top in zip(lows, tops, strict=True)]


@lru_cache(maxsize=16)
def _by_lowest_byte(shards: frozenset[int]) -> bytes:
    return bytes(shard_of(low) not in shards for low in range(256))
