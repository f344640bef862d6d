"""Puts the parts together and serves: the one place that names concrete ones."""

import math
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterable, Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import structlog
import trio
from attrs import define, evolve, field

from .. import __version__  # `mypy .` ends here: use `make check`
from ..store.errors import StoreError
from ..store.migrations import newest
from ..store.opening import database_of, open_backend
from ..store.ports import Backend
from ..store.store import Store
from ..store.timers.order import Orders
from ..wheel.horizon import Horizon
from ..wheel.ladder import Ladder
from ..wheel.timing_wheel import TimingWheel
from .access.clients import ClientOwners
from .access.keyring import Keyring
from .access.sessions import Sessions
from .alarm import Alarm
from .clock import Clock
from .dashboard.dashboard import Dashboard
from .groups.groups import Groups
from .groups.members import Members
from .groups.membership import Membership
from .groups.operations import Operations
from .groups.pauses import Pauses
from .groups.roster import Roster
from .hand.guards import Either, Guards
from .hand.hand import Hand
from .hand.loader import Loader
from .hand.promotion import Promotion
from .hand.releases import Releases
from .hand.spoilt import FACT as SPOILT
from .hand.spoilt import TOLD
from .hand.sweeps import Sweeps
from .http.app import App
from .http.server.entrance import Alone
from .http.server.front_door import FrontDoor
from .http.server.listening import listen_on_host, listen_on_path
from .http.server.tls import BadCertificate, Certificate
from .lifecycle import Lifecycle
from .metrics import Metrics
from .node import Node
from .nodes import Nodes
from .notices import Notices, nobody_hears
from .outages import Outage
from .own_address import others_reach
from .processes.process import Process
from .processes.supervisor import Supervisor
from .push.addresses import read_networks
from .push.pusher import Desk
from .push.pushers import Pushers
from .settings import Settings
from .shares import Shares
from .stream.forecast import Forecast
from .stream.growth import Growth
from .stream.intake import Intake
from .stream.limits import Limits
from .stream.listeners import Listeners
from .stream.readers import Readers
from .stream.schedules import Schedules
from .stream.sealer import Sealer
from .stream.shaping import Shaping
from .stream.timers import Timers
from .systemd import Systemd, here
from .topics.catalogue import Catalogue
from .topics.directory import Directory
from .topics.group_ranking import GroupRanking
from .topics.ranking import Ranking
from .topics.rates import Rates
from .topics.remover import Remover
from .upkeep.cleaner import Cleaner
from .upkeep.clock_watch import ClockWatch
from .upkeep.collector import tame_collector
from .upkeep.forgetting import Forgetting
from .upkeep.host_watch import HostWatch
from .upkeep.logs import set_up_logs
from .upkeep.measures import Measures
from .upkeep.write_probe import WriteProbe
from .upkeep.writer_watch import FACT, WriterWatch

if TYPE_CHECKING:
    from .push.posting import Poster

_LEFT_FOR_THE_END = 5.0
"""Seconds of the shutdown's grace kept for the last writes, and as many to let go of the store; of a short grace a
fifth."""

_SWITCH_INTERVAL = 0.0005
"""Seconds until a thread that computes lets another go on: the embedded store's writer and trio take turns."""

_LONGEST_NAME = 64
"""Characters of a node's name."""

_BEHIND = 1000
"""Milliseconds by which the hand may be late while what is past its time is cleared up: what is due comes first."""

log = structlog.get_logger()


class Unguarded(Exception):
    """The server would be open to others than this machine; the text says what to do."""


@define
class _Ending:
    """What the signals have said so far."""

    stopped: trio.Event = field(factory=trio.Event)
    code: int = 0


@define
class _Place:
    """Where the server is reached; its port is known once it listens."""

    url: str


@define
class _Reaction:
    """What signals do. Each way on which they come is counted by itself: see `processes.process`."""

    _lifecycle: Lifecycle
    _ending: _Ending
    _settings: Settings
    _certificate: Certificate | None
    _manager: Systemd | Process
    """Who watches over this process."""
    _everything: trio.CancelScope

    async def to(self, signals: AsyncIterable[int]) -> None:
        """First signal: no more claims, finish what is in flight. Second: at once. SIGHUP: the certificate is read
        anew."""
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
    """Serves until SIGTERM or SIGINT; the exit code: 0, 1 when the store cannot be used, 128 and the second signal."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # before and after the signals are watched there is nothing to finish
    set_up_logs(settings.log_level, settings.log_format)
    if settings.processes > 1:
        import_module("..store.mysql.backend", __package__)  # before the fork, once for all
    tame_collector()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    systemd = here()
    return _run(settings, systemd) if settings.processes == 1 else _supervise(settings, systemd)


def _supervise(settings: Settings, systemd: Systemd) -> int:
    """Several processes, each with a node of its own."""

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
    """One process, which may be one of several."""
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
        store = Store(backend, window=settings.idempotency_window, ladder=Ladder(settings.ladder))
        notices = Notices(settings.redis, database_of(settings.dsn)) if settings.redis else None
        place = _Place(settings.url)
        lifecycle = begin(store, settings, metrics, notices, place=place)
        app = App(lifecycle, settings, metrics, partial(process.exposition, metrics.text) if process else None)
        grace = settings.shutdown_grace / 1000
        left = _left(settings)
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
    """A server within another program, which has the signals and the log: until `stopped`, or its cancellation.

    `elapsed` stands for CLOCK_BOOTTIME, in nanoseconds. `ahead`: how many milliseconds of that the database's clock
    knows nothing of. `tell` hears the address once the server is at work.
    """
    try:
        metrics = Metrics()
        store = Store(backend, window=settings.idempotency_window, ladder=Ladder(settings.ladder))
        place = _Place(settings.url)
        clock = Clock(store.exact_now, monotonic=elapsed, server=lambda: backend.server, ahead=ahead)
        lifecycle = begin(store, settings, metrics, clock=clock, place=place)
        app = App(lifecycle, settings, metrics, None)
        left = _left(settings)
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


def begin(
    store: Store,
    settings: Settings,
    metrics: Metrics,
    notices: Notices | None = None,
    clock: Clock | None = None,
    *,
    place: _Place | None = None,
) -> Lifecycle:
    """A server over this store, which is to be `run`, and is watched from now on."""
    outage = Outage(metrics.db_error)
    store.watch = outage.watch
    make = partial(make_node, store, settings, metrics, notices, place or _Place(settings.url), outage)
    return Lifecycle(store, metrics, clock or Clock(store.exact_now, server=lambda: store.backend.server), make)


def make_node(
    store: Store,
    settings: Settings,
    metrics: Metrics,
    notices: Notices | None,
    place: _Place,
    outage: Outage,
    clock: Clock,
) -> Node:
    """Puts a node together. What is called later than it is made is named by a function: the hand above all."""

    def add(due: int, entry: int) -> None:
        hand.add(due, entry)

    def forget(due: int, entry: int) -> None:
        hand.cancel(due, entry)

    def busy() -> bool:
        return hand.behind > _BEHIND

    def facts() -> dict[str, Any]:
        told = {"version": __version__, "url": place.url, "hand_behind": hand.behind, "timers": len(hand)}
        told |= {"skew": store.backend.skew(), FACT: list(writer_watch.found)}
        return told | {SPOILT: promotion.spoilt.named(TOLD)}

    tell = nobody_hears if notices is None else notices.tell
    shares = Shares()
    nodes = Nodes(store, clock, settings.node, newest(), facts, shares, announce=tell)
    directory = Directory(store, clock, auto_create=settings.auto_create)
    listeners, rates, alarm = Listeners(), Rates(time.monotonic), Alarm(settings.alarm_url)
    cleaner = Cleaner(store, directory, clock, metrics, settings, busy=busy)
    present_for = settings.client_timeout
    groups = Groups(
        *(store, directory, clock, metrics, rates, alarm, present_for),
        add=add,
        see=cleaner.see,
        tell=tell,
        place=lambda: nodes.place,
    )
    sealer = Sealer(store, clock, directory, widest=settings.widest_hole)
    growth = Growth(directory, listeners, groups, sealer, notices)
    limits = Limits(store, clock, lambda: nodes.place[1])
    intake = Intake(
        *(store, directory, clock, metrics, rates, growth, limits, settings.max_waiting),
        add=add,
        forget=forget,
        place=lambda: nodes.place,
    )
    timers = Timers(*(store, directory, clock, metrics, intake, limits, settings.max_waiting), add=add, forget=forget)
    schedules = Schedules(store, clock, intake, lambda: nodes.level, add=add, forget=forget)
    promotion = Promotion(store, directory, clock, metrics, growth, intake, elsewhere=lambda: nodes.heard(SPOILT))
    now = clock.now()
    wheel, horizon = TimingWheel(now), Horizon(now, settings.horizon, settings.horizon_step)
    declared = {guard.name: guard for guard in settings.guards}
    guards = Guards(
        *(declared, store, directory, clock, metrics, alarm, promotion.streamed),
        level=lambda: nodes.level,
        alone=lambda: nodes.place[1] == 1,
        wholly=promotion.spoilt.wholly,
    )
    hand = Hand(
        *(wheel, horizon, clock, promotion.promote, promotion.streamed),
        aside=Either(promotion.held, guards, promotion.spoilt),
        shares=shares,
        topics_of=promotion.topics_of,
        strangers=promotion.strangers,
        releases=Releases(lambda: directory.release_rates, lambda: shares.part, clock.monotonic),
    )
    membership = Membership(store, clock, groups.dismiss, present_for)
    clock_watch = ClockWatch(clock, alarm, store.backend.skew)
    loader = Loader(store, hand, clock, nodes.tell_soon)
    sweeps = Sweeps(
        *(store, hand, clock),
        lost=groups.watch,
        growth=growth,
        stuck=promotion.spoilt.pass_over,
        reload=loader.reload,
    )
    store.orders = Orders(
        sweeps.unseen_from,
        lambda shard: 0 if sweeps.leaves(shard) else loader.read_until(shard),
        released=lambda topic: topic in directory.release_rates,
        holds=lambda shard: shard in shares.held,
        aside=promotion.spoilt,
    )
    host_watch = HostWatch(
        lambda: store.backend.server,
        lambda server: store.backend.admit(server),
        (clock_watch.follow_another, directory.read_anew, sweeps.read_anew),
        (loader.reload,),
    )
    writer_watch = WriterWatch(lambda: store.backend.rivals(), lambda: nodes.heard(FACT), alarm, clock)
    write_probe = WriteProbe(store, outage, clock, alarm, time.monotonic)
    forgetting = Forgetting(store, metrics, listeners, groups, cleaner)
    keyring = Keyring(store, always=settings.always_asks)
    pauses = Pauses(store, directory, groups.look_again, lambda: groups.awaited)
    desk = Desk(
        *(store, groups, clock, metrics, alarm),
        poster=cache(partial(_make_poster, settings)),
        lease=min(settings.client_timeout, settings.max_lease),
        leave=membership.deregister,
        asked=pauses.asked,
    )
    directory.topic_gone, directory.group_gone = forgetting.topic_gone, forgetting.group_gone
    return Node(
        store=store,
        clock=clock,
        directory=directory,
        catalogue=Catalogue(store, directory, groups.look_again, tell, lambda: nodes.level),
        ranking=Ranking(store, directory, rates),
        group_ranking=GroupRanking(store, directory),
        remover=Remover(store, directory, clock, busy, tell),
        intake=intake,
        timers=timers,
        schedules=schedules,
        forecast=Forecast(store, clock, metrics, lambda: nodes.level, lambda: nodes.has_duties),
        readers=Readers(store, directory, clock, listeners, groups.handed_out),
        shaping=Shaping(store, clock, wheel, promotion.pace),
        growth=growth,
        groups=groups,
        operations=Operations(store, clock, add, groups.closed),
        pauses=pauses,
        membership=membership,
        members=Members(store, clock, groups, present_for),
        roster=Roster(store, directory, membership, groups.present),
        hand=hand,
        loader=loader,
        promotion=promotion,
        guards=guards,
        sweeps=sweeps,
        cleaner=cleaner,
        measures=Measures(store, directory, metrics),
        alarm=alarm,
        clock_watch=clock_watch,
        host_watch=host_watch,
        writer_watch=writer_watch,
        write_probe=write_probe,
        keyring=keyring,
        sessions=Sessions(keyring, clock, store),
        nodes=nodes,
        client_owners=ClientOwners(store, clock, keyring, directory.look_up_group),
        pushers=Pushers(desk, directory, nodes, settings.node, read_networks(settings.push_allow), _left(settings) / 2),
    )


def _make_poster(settings: Settings) -> "Poster":
    """With the first post: who has none does not load what posts."""
    posting, lookups = (import_module(f".push.{name}", __package__) for name in ("posting", "lookups"))
    trusted = ssl.create_default_context()
    trusted.set_alpn_protocols(["http/1.1"])
    return cast("Poster", posting.Poster(read_networks(settings.push_allow), lookups.Lookups(), trusted))


def _left(settings: Settings) -> float:
    """Seconds of the grace that are kept for the last writes."""
    return min(_LEFT_FOR_THE_END, settings.shutdown_grace / 5000)


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
    """With the port that the system has chosen, where `listen` leaves that to it."""
    host, _, port = settings.listen.rpartition(":")
    if settings.listen_path is not None or int(port):
        return settings
    return evolve(settings, listen=f"{host}:{sockets[0].getsockname()[1]}")


async def _begin_to_serve(lifecycle: Lifecycle, settings: Settings, process: Process | None, ending: _Ending) -> None:
    """Once the store has answered and there are keys, where they are needed, the process takes its share."""
    await lifecycle.ready.wait()
    if settings.is_beyond:
        _look_for_keys(lifecycle, settings)
    with suppress(StoreError):  # another time: `tarry doctor` tells it, too
        backend = lifecycle.node.store.backend
        for problem in settings.too_little(await backend.longest_statement(), await backend.largest_transaction()):
            log.warning("database_setting", problem=problem)
    if process is not None and not ending.stopped.is_set():
        process.begin()
        await ending.stopped.wait()
        process.end()


async def _tell_ready(lifecycle: Lifecycle, manager: Systemd | Process) -> None:
    """It listens since before the store answered; now its timers are in memory."""
    await lifecycle.ready.wait()
    await lifecycle.node.loader.recovered.wait()
    manager.ready()


def _look_for_keys(lifecycle: Lifecycle, settings: Settings) -> None:
    """Where others than this machine reach the server. Until the store has answered it lets nobody in."""
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
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)  # one of several has them wait until now
        task_status.started()
        await reaction.to(signals)


def _leaves(errors: BaseExceptionGroup[Exception]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in errors.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves
