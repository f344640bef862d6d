"""The server as a process: settings, signals, sockets and the order of its end. `making` puts the server together."""

import math
import signal
import socket
import sys
from collections.abc import AsyncIterable, Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from pathlib import Path

import structlog
import trio
from attrs import define, evolve, field

from ..store.errors import StoreError
from ..store.opening import database_of, open_backend
from ..store.ports import Backend
from .dashboard.dashboard import Dashboard
from .facts import Address
from .http.app import App
from .http.server.entrance import Alone
from .http.server.front_door import FrontDoor
from .http.server.listening import listen_on_host, listen_on_path
from .http.server.tls import BadCertificate, Certificate
from .lifecycle import Lifecycle
from .making import begin
from .metrics import Metrics
from .node import left_for_the_end
from .notices import Notices
from .own_address import others_reach
from .processes.process import Process
from .processes.supervisor import Supervisor
from .settings import Settings
from .systemd import Systemd, here
from .upkeep.collector import tame_collector
from .upkeep.logs import set_up_logs

_SWITCH_INTERVAL = 0.0005
"""Seconds until a computing thread lets another go on: the embedded store's writer and trio take turns."""

_LONGEST_NAME = 64
"""Characters of a node's name, at most."""

log = structlog.get_logger()


class Unguarded(Exception):
    """Other machines could reach the server without a key; the text says what to do."""


@define
class _Ending:
    """What the signals have asked for so far."""

    stopped: trio.Event = field(factory=trio.Event)
    code: int = 0


@define
class _Reaction:
    """Reacts to signals. Those of the system and those passed on by the supervisor are counted separately: see
    `processes.process`."""

    _lifecycle: Lifecycle
    _ending: _Ending
    _settings: Settings
    _certificate: Certificate | None
    _manager: Systemd | Process
    """Told of this process's state: systemd, or the supervisor."""
    _everything: trio.CancelScope

    async def to(self, signals: AsyncIterable[int]) -> None:
        """At the first signal, stops claims and finishes what is in flight; at the second, ends at once. SIGHUP reads
        the certificate anew."""
        stopping = False
        async for number in signals:
            if number == signal.SIGHUP:
                if self._certificate is not None:
                    self._certificate.reload()
                continue
            name = signal.Signals(number).name
            if stopping:
                log.warning("stopping_at_once", signal=name)
                self._ending.code = 128 + number
                self._everything.cancel()
                return
            stopping = True
            if not self._ending.stopped.is_set():
                log.info("stopping", signal=name, grace_ms=self._settings.shutdown_grace)
                self._manager.stopping()
                self._lifecycle.stop()
                self._ending.stopped.set()


def run(settings: Settings) -> int:
    """Serves until SIGTERM or SIGINT. Returns the exit code: 0, 1 when it cannot serve, 128 + the second signal."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # before and after they are watched, there is nothing to finish
    set_up_logs(settings.log_level, settings.log_format)
    if settings.processes > 1:
        import_module("..store.mysql.backend", __package__)  # before the fork, once for all
    tame_collector()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    systemd = here()
    return _run(settings, systemd) if settings.processes == 1 else _supervise(settings, systemd)


def _supervise(settings: Settings, systemd: Systemd) -> int:
    def work(process: Process) -> int:
        structlog.contextvars.bind_contextvars(process=process.number)
        end = f"-{process.number}"
        try:
            return _run(evolve(reached, node=settings.node[: _LONGEST_NAME - len(end)] + end), process, process)
        except Exception:
            log.exception("crashed")
            return 1

    with ExitStack() as listening:
        try:
            sockets = listening.enter_context(_listening(settings))
        except OSError as error:
            log.error("cannot_serve", error=f"cannot listen on {settings.listen}: {error}")
            return 1
        reached = _reached(settings, sockets)
        return Supervisor(sockets, settings.processes, work, systemd, reloads=bool(settings.tls_cert)).run()


def _run(settings: Settings, manager: Systemd | Process, process: Process | None = None) -> int:
    """Runs one process, which may be one of several."""
    wrong: list[BaseException] = []
    code = 1
    try:
        code = trio.run(_serve, settings, manager, process)
    except* (StoreError, OSError, Unguarded, BadCertificate) as errors:
        wrong = _leaves(errors)
    for error in wrong:
        where = f"cannot listen on {settings.listen}: " if isinstance(error, OSError) else ""
        log.error("cannot_serve", error=f"{where}{error}")
    return code


async def _serve(settings: Settings, manager: Systemd | Process, process: Process | None) -> int:
    certificate = Certificate(Path(settings.tls_cert), Path(settings.tls_key)) if settings.tls_cert else None
    backend = await open_backend(settings.dsn, settings.redis or None)
    try:
        metrics = Metrics()
        notices = Notices(settings.redis, database_of(settings.dsn)) if settings.redis else None
        place = Address(settings.url)
        lifecycle = begin(backend, settings, metrics, notices, place=place)
        app = App(lifecycle, settings, metrics, partial(process.exposition, metrics.text) if process else None)
        grace = settings.shutdown_grace / 1000
        left = left_for_the_end(settings)
        limits = (settings.max_incoming, settings.body_timeout / 1000)
        sharing = process.share if process else Alone()
        ending = _Ending()
        face = Dashboard(app, settings.names, metrics.http_request, ending.stopped)
        door = FrontDoor(face, grace - 2 * left, *limits, certificate=certificate, sharing=sharing)
        async with trio.open_nursery() as nursery:
            reaction = _Reaction(lifecycle, ending, settings, certificate, manager, nursery.cancel_scope)
            await nursery.start(_watch_signals, reaction, certificate is not None)
            nursery.start_soon(lifecycle.run)
            nursery.start_soon(_begin_to_serve, lifecycle, settings, process, ending)
            nursery.start_soon(manager.run)
            nursery.start_soon(_tell_ready, lifecycle, manager)
            if process is not None:
                nursery.start_soon(reaction.to, process.orders())
                nursery.start_soon(process.answer, metrics.text)
            with nullcontext(process.sockets) if process else _listening(settings) as sockets:
                place.url = others_reach(_reached(settings, sockets), sockets)
                listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(sock)) for sock in sockets]
                await door.serve(listeners, ending.stopped)
            with trio.move_on_after(left):
                await lifecycle.drain()
            with trio.move_on_after(left):
                await lifecycle.hand_over()
            with trio.move_on_after(min(1, left)):
                await lifecycle.leave()
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await backend.aclose()
    log.info("stopped", code=ending.code)
    return ending.code


async def embed(
    backend: Backend,
    settings: Settings,
    elapsed: Callable[[], int],
    stopped: trio.Event,
    tell: Callable[[str], object],
    ahead: Callable[[], float] = float,
) -> None:
    """Runs a server within another program, which handles signals and the log, until `stopped` or cancelled.

    `elapsed` stands in for CLOCK_BOOTTIME, in nanoseconds. `ahead`: milliseconds by which that was moved on without the
    database's clock. `tell` is called with the address once the store has answered.
    """
    try:
        metrics = Metrics()
        place = Address(settings.url)
        lifecycle = begin(backend, settings, metrics, place=place, elapsed=elapsed, ahead=ahead)
        app = App(lifecycle, settings, metrics, None)
        left = left_for_the_end(settings)
        door = FrontDoor(app, settings.shutdown_grace / 1000 - 2 * left, settings.max_incoming, math.inf)
        with _listening(settings) as sockets:
            place.url = _reached(settings, sockets).url
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lifecycle.run)
                listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(sock)) for sock in sockets]
                nursery.start_soon(door.serve, listeners, stopped)
                await lifecycle.ready.wait()
                tell(place.url)
                await stopped.wait()
                lifecycle.stop()
                with trio.move_on_after(left):
                    await lifecycle.drain()
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await backend.aclose()


@contextmanager
def _listening(settings: Settings) -> Generator[Sequence[socket.socket], None, None]:
    path = settings.listen_path
    if path is None:
        port = int(settings.listen.rpartition(":")[2])
        with listen_on_host(settings.listen_host, port) as sockets:
            log.info("listening", url=_reached(settings, sockets).url)
            yield sockets
        return
    with listen_on_path(Path(path), settings.socket_mode) as sock:
        log.info("listening", url=settings.url)
        yield [sock]


def _reached(settings: Settings, sockets: Sequence[socket.socket]) -> Settings:
    """The settings with the port that the system has chosen, where `listen` leaves that to it."""
    host, _, port = settings.listen.rpartition(":")
    if settings.listen_path is not None or int(port):
        return settings
    return evolve(settings, listen=f"{host}:{sockets[0].getsockname()[1]}")


async def _begin_to_serve(lifecycle: Lifecycle, settings: Settings, process: Process | None, ending: _Ending) -> None:
    """Waits until the store has answered, makes sure that there are keys where they are needed, warns of database
    settings, and lets the process take its share."""
    await lifecycle.ready.wait()
    if settings.is_beyond:
        _look_for_keys(lifecycle, settings)
    with suppress(StoreError):  # it is only a warning, and `tarry doctor` gives it, too
        backend = lifecycle.node.store.backend
        for problem in settings.too_little(await backend.longest_statement(), await backend.largest_transaction()):
            log.warning("database_setting", problem=problem)
    if process is not None and not ending.stopped.is_set():
        process.begin()
        await ending.stopped.wait()
        process.end()


async def _tell_ready(lifecycle: Lifecycle, manager: Systemd | Process) -> None:
    """Reports readiness once the timers are in memory. The server has listened since before the store answered."""
    await lifecycle.ready.wait()
    await lifecycle.node.loader.recovered.wait()
    manager.ready()


def _look_for_keys(lifecycle: Lifecycle, settings: Settings) -> None:
    """Raises `Unguarded` if other machines reach the server and there is no key; with `insecure_listen` it only warns.
    Until the store has answered, nobody is let in."""
    keyring = lifecycle.node.keyring
    if keyring.anybody is not None:
        log.warning("open_to_all", listen=settings.listen, because="insecure_listen, and there is no key")
    elif not keyring.there:
        raise Unguarded(
            f"{settings.listen} is not this machine alone, and there is no key: make one with `tarry keys create NAME"
            " --scope SCOPE` on this store, or listen on 127.0.0.1; --insecure-listen lets everybody do everything"
        )
    elif not keyring.names:
        log.warning("nobody_gets_in", because="every key is revoked")


async def _watch_signals(
    reaction: _Reaction, reloads: bool, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    watched = [signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if reloads else [])]
    with trio.open_signal_receiver(*watched) as signals:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)  # in one of several processes they were blocked until now
        task_status.started()
        await reaction.to(signals)


def _leaves(errors: BaseExceptionGroup[Exception]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in errors.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves
