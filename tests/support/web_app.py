"""A program: a web server, Hypercorn on asyncio, whose application handles messages in the background.

    python tests/support/web_app.py URL PORT

Prints `handled` for each message, `stopped` when the background run has ended, and `served` when the server has.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.applications import Starlette

from tarry.client import AsyncTarry


def main() -> None:
    url, port = sys.argv[1:]

    async def handle(_: object) -> None:
        print("handled", flush=True)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        stop = asyncio.Event()
        async with AsyncTarry(url) as tarry:
            run = asyncio.create_task(tarry.run("t", "g", handle, workers=2, wait="100ms", stop=stop))
            yield
            stop.set()
            await run
            print("stopped", flush=True)

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    asyncio.run(serve(Starlette(lifespan=lifespan), config))  # type: ignore[arg-type]
    print("served", flush=True)


if __name__ == "__main__":
    main()
