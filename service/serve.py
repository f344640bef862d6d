"""Puts the parts together and serves: the one place that names concrete ones."""

import signal
import sys

import structlog
import trio
from attrs import define, field

from ..store.errors import StoreError
from ..store.opening import database_of, open_backend
from ..store.store import Store
from ..wheel.ladder import Ladder
from .engine import Engine
from .http.app import make_app
from .http.front_door import FrontDoor
from .metrics import Metrics
from .settings import Settings
from .stream.nudges import Nudges
from .upkeep.collector import tame_collector
from .upkeep.logs import set_up_logs
from .upkeep.outages import WatchedBackend

_LEFT_FOR_THE_END = 5.0
"""Seconds of the shutdown's grace kept for the last writes, and as many to let go of the store; of a short grace a
fifth."""

_SWITCH_INTERVAL = 0.0005
"""Seconds until a thread that computes lets another go on: the embedded store's writer and trio take turns."""

log = structlog.get_logger()


@define
class _Ending:
    """What the signals have said so far."""

    stopped: trio.Event = field(factory=trio.Event)
    code: int = 0


def run(settings: Settings) -> int:
    """Serves until SIGTERM or SIGINT; the exit code: 0, 1 when the store cannot be used, 128 and the second signal."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # before and after the signals are watched there is nothing to finish
    set_up_logs(settings.log_level, settings.log_format)
    tame_collector()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    wrong: list[BaseException] = []
    code = 1
    try:
        code = trio.run(_serve, settings)
    except* (StoreError, OSError) as errors:
        wrong = _leaves(errors)
    for error in wrong:
        where = f"cannot listen on {settings.listen}: " if isinstance(error, OSError) else ""
        log.error("cannot_serve", error=f"{where}{error}")
    return code


async def _serve(settings: Settings) -> int:
    backend = await open_backend(settings.dsn, settings.redis or None)
    try:
        metrics = Metrics()
        watched = WatchedBackend(backend, metrics.db_error)
        store = Store(watched, window=settings.idempotency_window, ladder=Ladder(settings.ladder))
        nudges = Nudges(settings.redis, database_of(settings.dsn)) if settings.redis else None
        engine = Engine(store, settings, metrics, nudges)
        app = make_app(engine, settings, metrics)
        grace = settings.shutdown_grace / 1000
        left = min(_LEFT_FOR_THE_END, grace / 5)
        door = FrontDoor(app, grace=grace - 2 * left)
        ending = _Ending()
        async with trio.open_nursery() as nursery:
            await nursery.start(_watch_signals, engine, ending, settings, nursery.cancel_scope)
            nursery.start_soon(engine.run)
            listeners = await _listen(settings.listen)
            log.info("listening", url=f"http://{settings.listen}")
            await door.serve(listeners, ending.stopped)
            with trio.move_on_after(left):
                await engine.drain()
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await backend.aclose()
    log.info("stopped", code=ending.code)
    return ending.code


async def _listen(address: str) -> list[trio.SocketListener]:
    host, _, port = address.rpartition(":")
    return await trio.open_tcp_listeners(int(port), host=host.strip("[]"))


async def _watch_signals(
    engine: Engine,
    ending: _Ending,
    settings: Settings,
    everything: trio.CancelScope,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """First signal: no more claims, finish what is in flight. Second: at once."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            name = signal.Signals(number).name
            if ending.stopped.is_set():
                log.warning("stopping_at_once", signal=name)
                ending.code = 128 + number
                everything.cancel()
                return
            log.info("stopping", signal=name, grace_ms=settings.shutdown_grace)
            engine.stop()
            ending.stopped.set()


def _leaves(errors: BaseExceptionGroup[Exception]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in errors.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves
