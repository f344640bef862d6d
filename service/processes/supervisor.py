"""The supervisor: starts the processes of a server, passes signals on to them, and restarts processes that die.

It is plain Python that waits for signals: it runs no event loop and no thread, so it can fork at any time.
"""

import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress

import structlog
from attrs import define, field

from ..systemd import Systemd
from .board import Board, Share
from .last_word import LastWord
from .process import Asking, Process
from .restarts import Restarts

_LOOK = 0.02
"""Seconds between two checks whether the first process serves."""
_LOADING = 0.2
"""Seconds between two checks whether it has loaded its timers, if systemd wants to know."""
_LAST = 5.0
"""Seconds after a second signal, after which the remaining processes are killed."""
_PR_SET_PDEATHSIG = 1

log = structlog.get_logger()


@define(eq=False)
class Supervisor:
    """`run` runs until all processes have ended; `work` is the work of a process and returns its exit code."""

    _sockets: Sequence[socket.socket]
    _processes: int
    _work: Callable[[Process], int]
    _systemd: Systemd
    reloads: bool = field(kw_only=True)
    """Whether SIGHUP is passed on to the processes. Otherwise it ends the supervisor, as it does any other program."""
    _restarts: Restarts = field(init=False)
    _board: Board = field(init=False)
    _asking: Sequence[Asking] = field(init=False)
    _pids: dict[int, int] = field(factory=dict[int, int], init=False)
    """Numbers of the running processes, by pid."""
    _pipes: dict[int, int] = field(factory=dict[int, int], init=False)
    """Pipes for orders, by process number."""
    _last_word: LastWord = field(init=False)
    _stopping: bool = field(default=False, init=False)
    _kill_at: float | None = field(default=None, init=False)
    _ready: bool = field(default=False, init=False)
    """Whether systemd was told that a process is loaded."""
    _live_at: float = field(default=0.0, init=False)
    """When systemd is next told that all processes live."""

    def __attrs_post_init__(self) -> None:
        self._restarts, self._board = Restarts(self._processes), Board(self._processes)
        self._asking = [Asking(*socket.socketpair(type=socket.SOCK_DGRAM)) for _ in range(self._processes)]
        for asking in self._asking:
            asking.to.setblocking(False)

    def run(self) -> int:
        """Runs the processes, and returns the exit code: that of the process that could not begin, or 0, or 128 plus
        the second signal."""
        watched = self._watched
        with _held(watched) as before:
            self._last_word = LastWord(self._sockets)
            while True:
                for number in self._restarts.due(time.monotonic()):
                    self._begin(number, before)
                if self._restarts.over:
                    log.info("supervisor_stopped", code=self._restarts.code)
                    self._last_word.spare()
                    return self._restarts.code
                came = signal.sigtimedwait(watched, self._patience())
                if came is not None and came.si_signo != signal.SIGCHLD:
                    self._hand_on(signal.Signals(came.si_signo))
                self._look()

    @property
    def _watched(self) -> list[signal.Signals]:
        return [signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, *([signal.SIGHUP] if self.reloads else [])]

    def _patience(self) -> float:
        """Seconds until there is something to do even if no signal comes."""
        now = time.monotonic()
        wait = self._restarts.wait(now)
        waits = [3600.0 if wait is None else wait]
        if self._restarts.alone:
            waits.append(_LOOK)
        if self._kill_at is not None:
            waits.append(max(0.0, self._kill_at - now))
        if not self._ready and self._systemd.address:
            waits.append(_LOADING)
        if self._systemd.rest is not None:
            waits.append(max(0.0, self._live_at - now))
        return min(waits)

    def _begin(self, number: int, mask: set[signal.Signals]) -> None:
        supervisor = os.getpid()
        sys.stdout.flush()
        try:
            reads, writes, pid = _fork()
        except OSError as error:  # no memory, or too many processes; the others go on
            self._restarts.begins(number, time.monotonic())
            again_in = self._restarts.ended(number, 1, time.monotonic())
            log.error("process_not_started", process=number, error=str(error), again_in=again_in)
            return
        if pid:
            os.close(reads)
            self._pids[pid], self._pipes[number] = number, writes
            self._restarts.begins(number, time.monotonic())
            log.info("process_started", process=number, pid=pid)
            return
        code = 1
        try:
            _die_with(supervisor)
            last = () if self._last_word.pipe is None else (self._last_word.pipe,)
            for pipe in (*self._pipes.values(), writes, *last):
                os.close(pipe)  # else the pipes would not close when the supervisor ends
            # Blocked until the process handles them: a terminal sends signals to the whole group, new processes, too.
            signal.pthread_sigmask(signal.SIG_SETMASK, mask | {*self._watched} - {signal.SIGCHLD})
            share = Share(self._board, number)
            code = self._work(Process(number, self._sockets, share, reads, self._asking, self._systemd.rest))
        finally:
            # Leave without cleanup: what surrounds the supervisor, such as a socket's file, is not this process's.
            with suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _hand_on(self, number: signal.Signals) -> None:
        if number != signal.SIGHUP:
            if self._stopping:
                self._restarts.stop_at_once(number)
                self._kill_at = self._kill_at or time.monotonic() + _LAST
            self._stop()
        self._order(number)

    def _stop(self) -> None:
        """Stops restarts, and closes the supervisor's copies of the sockets: nobody listens once the processes have
        stopped, too."""
        if not self._stopping:
            self._systemd.stopping()
        self._stopping = True
        self._restarts.stop()
        for sock in self._sockets:
            sock.close()

    def _order(self, number: int) -> None:
        for pipe in self._pipes.values():
            with suppress(BrokenPipeError):  # the process is dead, which `_look` finds out
                os.write(pipe, bytes([number]))

    def _look(self) -> None:
        """Notes which processes serve and which have ended, and kills those whose time is over."""
        if any(self._board.serves(number) for number in self._pids.values()):
            self._restarts.served()
        self._tell_systemd()
        for pid, code in _ended():
            if (number := self._pids.pop(pid, None)) is not None:
                self._ended(number, pid, code)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            for pid in self._pids:
                os.kill(pid, signal.SIGKILL)

    def _tell_systemd(self) -> None:
        """Tells systemd, once, that a process is loaded; and regularly, that none hangs. A single process that hangs is
        enough to stop telling: no other process has the messages in its hands."""
        if not self._ready and any(self._board.is_loaded(number) for number in self._pids.values()):
            self._ready = True
            self._systemd.ready()
        rest, patience = self._systemd.rest, self._systemd.patience
        now = time.monotonic()
        if rest is None or patience is None or now < self._live_at:
            return
        self._live_at = now + rest
        signs = (self._board.lived(number) for number in self._pids.values())
        if all(now - sign / 1e9 < patience for sign in signs if sign):  # a process without a sign has just begun
            self._systemd.alive()

    def _ended(self, number: int, pid: int, code: int) -> None:
        os.close(self._pipes.pop(number))
        self._board.forget(number)
        again_in = self._restarts.ended(number, code, time.monotonic())
        how = {"signal": _name(-code)} if code < 0 else {"code": code}
        if again_in is not None:
            log.error("process_died", process=number, pid=pid, **how, again_in=again_in)
        elif not self._stopping:
            log.error("processes_cannot_serve", process=number, **how)
            self._stop()
            self._order(signal.SIGTERM)


@contextmanager
def _held(signals: Sequence[signal.Signals]) -> Generator[set[signal.Signals], None, None]:
    """Blocks the signals, so that they wait until they are fetched; gives the signals that were blocked before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _fork() -> tuple[int, int, int]:
    """Forks; returns the reading and the writing end of a new pipe, and the pid of the new process, 0 in that
    process."""
    reads, writes = os.pipe()
    try:
        return reads, writes, os.fork()
    except OSError:
        os.close(reads)
        os.close(writes)
        raise


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a signal without a name
        return str(number)


def _ended() -> Generator[tuple[int, int], None, None]:
    """(pid, exit code, negative for a signal) of each process that has ended."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            yield pid, os.waitstatus_to_exitcode(status)


def _die_with(supervisor: int) -> None:
    """Has the kernel kill this process when the supervisor ends. On other systems than Linux the closed pipe ends
    it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:  # the supervisor ended before the kernel was told
        os._exit(1)
