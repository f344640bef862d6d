"""Puts the parts together and serves: the one place that names concrete ones."""

import logging
import signal
import sys
from typing import cast

import structlog
import trio
from hypercorn.config import Config
from hypercorn.trio import serve as serve_http  # pyright: ignore[reportUnknownVariableType]  # its hooks are untyped
from hypercorn.typing import ASGIFramework

from ..store.errors import StoreError
from ..store.opening import database_of, open_backend
from ..store.store import Store
from ..wheel.ladder import Ladder
from .collector import tame_collector
from .engine import Engine
from .http.app import make_app
from .logs import set_up_logs
from .metrics import Metrics
from .nudges import Nudges
from .settings import Settings

_LEFT_FOR_THE_END = 5
"""Seconds of the shutdown's grace kept for the last writes."""

_SWITCH_INTERVAL = 0.0005
"""Seconds until a thread that computes lets another go on: the embedded store's writer and trio take turns."""
_ENDLESS = 1_000_000_000

log = structlog.get_logger()


def run(settings: Settings) -> int:
    """Serves until SIGTERM or SIGINT; the exit code: 0, or 1 when the store cannot be used."""
    set_up_logs(settings.log_level, settings.log_format)
    tame_collector()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    wrong: list[BaseException] = []
    try:
        trio.run(_serve, settings)
    except* (StoreError, OSError) as errors:
        wrong = _leaves(errors)
    for error in wrong:
        where = f"cannot listen on {settings.listen}: " if isinstance(error, OSError) else ""
        log.error("cannot_serve", error=f"{where}{error}")
    return 1 if wrong else 0


async def _serve(settings: Settings) -> None:
    backend = await open_backend(settings.dsn, settings.redis or None)
    try:
        metrics = Metrics()
        store = Store(backend, window=settings.idempotency_window, ladder=Ladder(settings.ladder))
        engine = Engine(store, settings, metrics)
        if settings.redis:
            engine.nudges = Nudges(settings.redis, database_of(settings.dsn), engine.hear)
        app = make_app(engine, settings, metrics)
        stopped = trio.Event()
        async with trio.open_nursery() as nursery:
            await nursery.start(_watch_signals, engine, stopped, settings)
            nursery.start_soon(engine.run)
            log.info("listening", url=f"http://{settings.listen}")
            await serve_http(cast(ASGIFramework, app), _http_config(settings), shutdown_trigger=stopped.wait)
            with trio.move_on_after(_LEFT_FOR_THE_END):
                await engine.drain()
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await backend.aclose()
    log.info("stopped")


async def _watch_signals(
    engine: Engine,
    stopped: trio.Event,
    settings: Settings,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """First signal: no more claims, finish what is in flight. Second: at once."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        heard = 0
        async for number in signals:
            heard += 1
            log.info("stopping", signal=signal.Signals(number).name, grace_ms=settings.shutdown_grace)
            if heard > 1:
                raise KeyboardInterrupt
            engine.stop()
            stopped.set()


def _http_config(settings: Settings) -> Config:
    config = Config()
    config.bind = [settings.listen]
    config.graceful_timeout = max(1, settings.shutdown_grace / 1000 - 2 * _LEFT_FOR_THE_END)
    config.keep_alive_timeout = 75
    config.keep_alive_max_requests = _ENDLESS
    config.accesslog = None
    config.errorlog = logging.getLogger("hypercorn.error")
    config.include_server_header = False
    return config


def _leaves(errors: BaseExceptionGroup[Exception]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in errors.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves
