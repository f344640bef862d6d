"""The assignment of shards to nodes: each node computes it from the nodes that are there, with the same result."""

from collections.abc import Set
from functools import lru_cache
from hashlib import blake2b

from ....wheel.shards import SHARDS


@lru_cache(maxsize=8)
def assign(nodes: Set[str]) -> tuple[str, ...]:
    """The node of each shard; no node has two more than another. When a node comes or goes, few other shards change
    hands.

    That is rendezvous hashing (D. Thaler and C. Ravishankar, 1996) with a bound: a shard goes to the node of the
    highest weight, unless that node has its share already.
    """
    least, more = divmod(SHARDS, len(nodes))  # `more` of the nodes have one more than the least
    owners: dict[int, str] = {}
    counts = dict.fromkeys(nodes, 0)
    pairs = [(node, shard) for node in nodes for shard in range(SHARDS)]
    weights = [(blake2b(f"{node}/{shard}".encode(), digest_size=8).digest(), shard, node) for node, shard in pairs]
    for _, shard, node in sorted(weights, reverse=True):
        if shard in owners or counts[node] >= least + (more > 0):
            continue
        more -= counts[node] == least
        counts[node] += 1
        owners[shard] = node
    return tuple(owners[shard] for shard in range(SHARDS))
