"""The works: tasks that each peer is measured at, on its own empty server."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from attrs import frozen

from ..arrivals import percentiles
from ..programs import tree
from ..report import Figures, say
from ..subject import now
from ..usage import cpu_of_all
from .peer import Arrival, Peer
from .processes import memory_of_all

_WARM_UP = 2
"""The first seconds of the lateness, which do not count."""
_PROBE = 500
_HOUR = 3_600_000
_READY = 5
"""Seconds that consumers have to start."""
_AWAY = 3
"""Seconds that a killed server is down; a message falls due meanwhile."""
_SLOWEST = 300
"""The fewest messages a second that a peer must handle before it is given up."""

T = TypeVar("T")


@frozen
class Sizes:
    """The sizes of the works."""

    callers: tuple[int, ...]
    seconds: float
    """Seconds of each publishing."""
    rate: int
    late_seconds: float
    waiting: int
    pending: int
    burst: int
    idle_seconds: float


def publish(peer: Peer, sizes: Sizes) -> Figures:
    """Measures durable publishes by callers that each wait for their answer."""
    found: Figures = {}
    for callers in sizes.callers:
        figures = peer.publish(callers, sizes.seconds)
        found |= {f"{name}_{callers}": figures[name] for name in ("per_s", "p50_ms", "p99_ms")}
    return found


def lateness(peer: Peer, sizes: Sizes) -> Figures:
    """Measures how late messages arrive at the handlers, at a steady rate."""
    total = round(sizes.rate * (sizes.late_seconds + _WARM_UP))
    first = _lead(peer, total)
    arrivals = _scheduled(peer, [first + number * 1000 // sizes.rate for number in range(total)])
    late = (at / 1e6 - due for _, due, at in arrivals if due >= first + 1000 * _WARM_UP)
    return percentiles(late) | _counts(arrivals, total)


def drain(peer: Peer, sizes: Sizes) -> Figures:
    """Measures how fast waiting messages are handled and acknowledged, from the first one at a handler to the last."""
    loaded = peer.schedule([0] * sizes.waiting)
    arrivals = peer.consume(sizes.waiting, _patience(sizes.waiting))
    times = [at for _, _, at in arrivals]
    took = (max(times) - min(times)) / 1e9
    return {
        "per_s": round(len(times) / took),
        "loaded_per_s": round(sizes.waiting / loaded),
        **_counts(arrivals, sizes.waiting),
    }


def schedule(peer: Peer, sizes: Sizes) -> Figures:
    """Schedules messages over the hour that begins in an hour; measures time, memory and the recovery after a kill."""
    before = memory_of_all(_servers(peer))
    first = now() + _HOUR
    took = peer.schedule([first + number * _HOUR // sizes.pending for number in range(sizes.pending)])
    after = memory_of_all(_servers(peer))
    peer.schedule([now() + 1000 * (_AWAY - 1)])
    peer.kill()
    time.sleep(_AWAY)
    began, began_ns = time.perf_counter(), time.time_ns()
    peer.start()
    ready = time.perf_counter() - began
    arrivals = peer.consume(1, _patience(1))
    return {
        "per_s": round(sizes.pending / took),
        "memory_mb": round(after / 1e6, 1),
        "bytes_each": round((after - before) / sizes.pending) if peer.in_memory else None,
        "ready_s": round(ready, 2),
        "first_s": round((arrivals[0][2] - began_ns) / 1e9, 2),
        "lost": sizes.pending - peer.pending(),
    }


def burst(peer: Peer, sizes: Sizes) -> Figures:
    """Schedules messages due in one millisecond; measures how long until the last is at a handler."""
    due = _lead(peer, sizes.burst)
    arrivals = _scheduled(peer, [due] * sizes.burst)
    late = sorted(at / 1e9 - due / 1e3 for _, _, at in arrivals)
    return {"first_s": round(late[0], 3), "all_s": round(late[-1], 2), **_counts(arrivals, sizes.burst)}


def idle(peer: Peer, sizes: Sizes) -> Figures:
    """Measures consumers at an empty queue: the processor time of the server, and of server and clients together."""

    def look() -> Figures:
        time.sleep(_READY)
        own = os.getpid()
        servers, all_of_it, asked = cpu_of_all(_servers(peer)), cpu_of_all(tree(own)), peer.asked()
        began = time.perf_counter()
        time.sleep(sizes.idle_seconds)
        took = time.perf_counter() - began
        figures = {
            "server_percent": round(100 * (cpu_of_all(_servers(peer)) - servers) / took, 2),
            "all_percent": round(100 * (cpu_of_all(tree(own)) - all_of_it) / took, 2),
        }
        queries = None if asked is None else round(((peer.asked() or 0) - asked) / took, 1)
        peer.schedule([0])
        return {**figures, "queries_per_s": queries}

    patience = _READY + sizes.idle_seconds + _patience(1)
    return _beside(lambda: peer.consume(1, patience), look)[1]


WORKS: dict[str, Callable[[Peer, Sizes], Figures]] = {
    "a": publish,
    "b": lateness,
    "c": drain,
    "d": schedule,
    "e": burst,
    "f": idle,
}


def _lead(peer: Peer, total: int) -> int:
    """When the first message can be due so that scheduling is over and consumers run; estimated by scheduling a few."""
    took = peer.schedule([now() + 2 * _HOUR] * _PROBE)
    return now() + round(1000 * (_READY + 2 + 1.5 * took * total / _PROBE))


def _scheduled(peer: Peer, dues: Sequence[int]) -> list[Arrival]:
    """Schedules messages and consumes them, with consumers that run before the first one is due."""
    peer.schedule(dues)
    ahead = min(dues) - now()
    if ahead < 1000 * _READY:
        raise RuntimeError("scheduling took longer than the time that was left for it")
    say(f"{len(dues)} scheduled, the first due in {ahead / 1000:.0f} s")
    span = (max(dues) - now()) / 1000
    return peer.consume(len(dues), span + _patience(len(dues)))


def _patience(total: int) -> float:
    return 30 + total / _SLOWEST


def _counts(arrivals: Sequence[Arrival], total: int) -> Figures:
    """Counts missing, doubled and early messages among `total`."""
    numbers = [number for number, _, _ in arrivals]
    return {
        "of": total,
        "missing": total - len(set(numbers)),
        "doubled": len(numbers) - len(set(numbers)),
        "early": sum(at < due * 1_000_000 for _, due, at in arrivals),
    }


def _servers(peer: Peer) -> list[int]:
    return [pid for server in peer.pids() for pid in tree(server)]


def _beside(background: Callable[[], object], act: Callable[[], T]) -> tuple[object, T]:
    """Runs `background` in a thread and `act` beside it; returns both results."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(background)
        found = act()
        return future.result(), found
