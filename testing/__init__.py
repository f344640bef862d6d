"""For users' own tests: a real server in this process, and time that is moved by hand.

    from tarry.testing import EmbeddedServer

    with EmbeddedServer() as server, Tarry(server.url) as tarry:
        tarry.publish("orders", {"order": 7}, delay="48h")
        server.clock.advance("48h")
        server.drain()

It needs the extra `server`.
"""

from ..store.extras import lacking

try:
    from .embedded import EmbeddedServer
    from .idle import NotDrained
    from .moved_time import MovedTime
    from .own_database import NoDatabase
except ModuleNotFoundError as error:
    if (sentence := lacking("server", error)) is None:
        raise
    raise ImportError(sentence) from error

__all__ = ["EmbeddedServer", "MovedTime", "NoDatabase", "NotDrained"]
