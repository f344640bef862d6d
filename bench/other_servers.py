"""Servers to compare with, each run as a process: the same app behind Hypercorn, and a bare answer from uvicorn.

python -m tarry.bench.other_servers hypercorn PORT DSN
python -m tarry.bench.other_servers uvicorn PORT
"""

import sys
from typing import Any, cast

import trio

from ..service.http.app import App
from ..service.making import begin
from ..service.metrics import Metrics
from ..service.settings import Settings
from ..service.upkeep.collector import tame_collector
from .subject import opened


async def behind_hypercorn(port: int, dsn: str) -> None:
    """Tarry's app over a node of its own."""
    import hypercorn.trio
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.keep_alive_max_requests = 1_000_000_000
    config.accesslog = config.errorlog = None
    settings, metrics = Settings(dsn=dsn), Metrics()
    async with opened(dsn) as store:
        lifecycle = begin(store.backend, settings, metrics)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lifecycle.run)
            await lifecycle.ready.wait()
            await cast(Any, hypercorn.trio).serve(App(lifecycle, settings, metrics), config)


def hello(port: int) -> None:
    """Two bytes, which is as fast as a server in Python answers."""
    import uvicorn

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", http="httptools", lifespan="off")


if __name__ == "__main__":
    tame_collector()
    if sys.argv[1] == "hypercorn":
        trio.run(behind_hypercorn, int(sys.argv[2]), sys.argv[3])
    else:
        hello(int(sys.argv[2]))
