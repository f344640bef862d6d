"""Runs Tarry's app behind Hypercorn in its own process, as a baseline for bench/front.py; it is called as `tarry` is.

python -m tarry.bench.behind_hypercorn serve --dsn DSN --listen HOST:PORT
"""

import argparse
from typing import Any, cast

import trio

from ..service.http.app import App
from ..service.making import begin
from ..service.metrics import Metrics
from ..service.settings import Settings
from ..service.upkeep.collector import tame_collector
from .subject import opened


async def serve(dsn: str, listen: str) -> None:
    """Serves Tarry's app with its own node until cancelled."""
    import hypercorn.trio
    from hypercorn.config import Config

    config = Config()
    config.bind = [listen]
    config.keep_alive_max_requests = 1_000_000_000
    config.accesslog = config.errorlog = None
    settings, metrics = Settings(dsn=dsn), Metrics()
    async with opened(dsn) as store:
        lifecycle = begin(store.backend, settings, metrics)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lifecycle.run)
            await lifecycle.ready.wait()
            await cast(Any, hypercorn.trio).serve(App(lifecycle, settings, metrics), config)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--listen", required=True)
    arguments = parser.parse_args()
    tame_collector()
    trio.run(serve, arguments.dsn, arguments.listen)
