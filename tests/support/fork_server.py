"""Starts `python -m tarry...`, and programs of the tests, as forks of a process that has loaded it: 20 ms, not 600.

Otherwise a fork behaves like a normal start: it has its own id, session, files, environment and end, and its parent is
the process that asked for it. `install` hooks it into `subprocess`, so tests and the code that they call do not notice.
Anything else (another package path, another interpreter, flags of Python) is started normally.
"""

import atexit
import ctypes
import gc
import inspect
import io
import json
import os
import pkgutil
import runpy
import secrets
import select
import shlex
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from tarry.service.demo.server_process import python_path

_LOADED = ("tarry.wheel", "tarry.store", "tarry.client", "tarry.service")
"""Packages that are loaded with all their modules, except for those whose dependencies are missing."""
_NOT_LOADED = "tarry.client.django"
"""Needs Django's settings before it can be loaded."""
_OWN = ("tarry.service.", "tarry.bench.", "support.")
"""Modules that are started by forking: programs that consist of the packages above. Scripts beside this one are, too,
and, where TARRY_TEST_FORK is 1, code given as an argument."""
_STARTERS = ("tarry.bench.",)
"""Those of them that start such programs themselves."""
_FLAGS = {"-P": "PYTHONSAFEPATH", "-u": "PYTHONUNBUFFERED"}
_READ_FIRST = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "OPENSSL_")
"""Prefixes of variables that are read before the first line of a program."""
_PLAIN = {
    "preexec_fn": None,
    "shell": False,
    "close_fds": True,
    "pass_fds": (),
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "restore_signals": True,
}
"""Arguments of Popen that must have these values; otherwise the program is started normally."""
_LARGEST = 100_000
"""The most bytes of a request: what a datagram holds on any machine."""
_SAME_USER = struct.Struct("3i")
"""The fields of SO_PEERCRED: process, user and group."""
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: a descendant whose parent ends becomes a child of this process."""


@attrs.frozen
class Program:
    """`python -m NAME ARGUMENTS`, `python NAME ARGUMENTS` or `python -c NAME ARGUMENTS`."""

    kind: str
    name: str
    arguments: list[str]
    cwd: str
    environment: dict[str, str]
    session: bool
    group: int

    @property
    def named(self) -> list[str]:
        """The entries of PYTHONPATH."""
        return [entry for entry in self.environment.get("PYTHONPATH", "").split(os.pathsep) if entry]

    @property
    def path(self) -> list[str]:
        """The entries of `sys.path` before the interpreter's own."""
        first = os.fspath(Path(self.name).parent) if self.kind == "script" else self.cwd
        return [*([] if self.environment.get("PYTHONSAFEPATH") else [first]), *self.named]


class _ForkServer:
    """The process that has loaded everything; it ends with the process that asks, whose end closes the socket."""

    def __init__(self, asks: socket.socket, address: str = "") -> None:
        self._socket = asks
        self.address = address
        """The address at which shells ask."""
        self._of = os.getpid()

    @property
    def ours(self) -> bool:
        """Whether it belongs to this process and was not inherited over a fork."""
        return self._of == os.getpid()

    def start(self, program: Program, files: Sequence[int]) -> int:
        """Starts the program as a child of this process and returns its id. `files`: its stdin, stdout and stderr."""
        asked = json.dumps(attrs.asdict(program)).encode("utf-8", "surrogateescape")
        libc = ctypes.CDLL(None)
        libc.prctl(_SUBREAPER, 1)
        try:
            socket.send_fds(self._socket, [asked], list(files))
            return int(self._socket.recv(64))
        finally:
            libc.prctl(_SUBREAPER, 0)


def _started() -> _ForkServer:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    address = f"tarry-fork-{secrets.token_hex(8)}"
    with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as shells:
        shells.bind(f"\0{address}")
        shells.listen(64)
        process = _REAL(
            [sys.executable, "-P", "-m", "support.fork_server", str(theirs.fileno()), str(shells.fileno())],
            pass_fds=[theirs.fileno(), shells.fileno()],
            env=_environment | {"PYTHONPATH": os.pathsep.join([str(_TESTS), *python_path().values()])},
            stdin=subprocess.DEVNULL,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return _ForkServer(ours, address)


_TESTS = Path(__file__).parents[1]
_REAL = subprocess.Popen
_turn = threading.Lock()
"""Lets one thread at a time start a program, since answers do not say which request they belong to."""
_server: _ForkServer | None = None
_environment: dict[str, str] = {}
"""The environment at first; what tests set later is for the programs that they start."""


class _Popen(subprocess.Popen[Any]):
    """Like its base, except that some programs are forked."""

    def _execute_child(self, *args: Any) -> None:
        real = getattr(super(), "_execute_child")  # noqa: B009
        asked = inspect.signature(real).bind(*args).arguments
        program = _program(asked)
        if program is None:
            real(*args)
            return
        pipes = [asked[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
        files = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        with _turn:
            self.pid = _here().start(program, [n if file == -1 else file for n, file in enumerate(files)])
        self._child_created = True
        getattr(self, "_close_pipe_fds")(*pipes)  # noqa: B009


def _here() -> _ForkServer:
    """The fork server of this process, started if there is none."""
    global _server
    if _server is None or not _server.ours:
        _server = _started()
    return _server


def put_tarry(folder: Path) -> None:
    """Writes the command `tarry` into a folder, for shells that have it in their PATH."""
    words = [sys.executable, "-m"]
    if subprocess.Popen is _Popen:
        with _turn:
            words = [sys.executable, "-I", "-S", str(Path(__file__).with_name("typed.py")), _here().address]
    command = folder / "tarry"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(words)} tarry.service.cli.app "$@"\n')
    command.chmod(0o755)


def install() -> None:
    """Forks the project's programs that this process starts from now on, unless TARRY_TEST_FORK is 0."""
    if os.environ.get("TARRY_TEST_FORK") != "0":
        _environment.update(os.environ)
        subprocess.Popen = _Popen  # type: ignore[misc]


def _program(asked: Mapping[str, Any]) -> Program | None:
    """The program that these arguments start by forking; None if it must be started normally."""
    command = asked["args"]
    if isinstance(command, str | bytes | os.PathLike) or len(command) < 2:
        return None
    words = [os.fsdecode(word) for word in command]
    if any(asked.get(name, value) != value for name, value in _PLAIN.items()) or words[0] != sys.executable:
        return None
    environment = {os.fsdecode(name): os.fsdecode(value) for name, value in (asked["env"] or os.environ).items()}
    if environment.get("TARRY_TEST_FORK") == "0":
        return None
    del words[0]
    same = _same_interpreter(environment)
    while words and words[0] in _FLAGS:
        environment |= {_FLAGS[words.pop(0)]: "1"}
    kind = words.pop(0) if words and words[0] in ("-m", "-c") else "script"
    if not same or not words or not _is_own(kind, words[0], environment):
        return None
    cwd = os.fsdecode(asked["cwd"] or Path.cwd())
    program = Program(
        kind, words[0], words[1:], cwd, environment, bool(asked["start_new_session"]), asked.get("process_group", -1)
    )
    if not Path(cwd).is_dir() or _another_package(cwd) or not all(map(_known, program.named)):
        return None
    return program if len(json.dumps(attrs.asdict(program))) < _LARGEST else None


def _is_own(kind: str, name: str, environment: Mapping[str, str]) -> bool:
    match kind:
        case "-m":
            return name.startswith(_OWN)
        case "-c":
            return environment.get("TARRY_TEST_FORK") == "1"
        case _:
            return Path(name).parent == Path(__file__).parent


def _same_interpreter(environment: Mapping[str, str]) -> bool:
    """Whether no variable would make Python itself behave differently."""
    read = {name for name in environment.keys() | _environment.keys() if name.startswith(_READ_FIRST)}
    return all(environment.get(name) == _environment.get(name) for name in read - {"PYTHONPATH", "PYTHONSAFEPATH"})


def _known(entry: str) -> bool:
    """Whether this path entry holds nothing that Python would load first, such as a `sitecustomize`."""
    known = _environment.get("PYTHONPATH", "").split(os.pathsep)
    return entry in (*known, os.fspath(_TESTS)) or (
        Path(entry, "tarry", "__init__.py").exists() and not _another_package(entry)
    )


def _another_package(entry: str) -> bool:
    there = Path(entry, "tarry", "__init__.py")
    ours = import_module("tarry").__file__
    return there.exists() and there.resolve() != Path(str(ours)).resolve()


def _load() -> None:
    for name in _LOADED:
        with suppress(ImportError):
            package = import_module(name)
            for module in pkgutil.walk_packages(package.__path__, f"{name}.", onerror=lambda _: None):
                if not module.name.startswith(_NOT_LOADED) and not module.name.endswith("__main__"):
                    with suppress(ImportError):
                        import_module(module.name)


def _serve(asked_on: socket.socket, shells: socket.socket | None = None) -> None:
    """Serves until nobody can ask any more. Returns in each forked process after its program has ended."""
    while True:
        if shells is not None:
            ready, _, _ = select.select([asked_on, shells], [], [])
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if shells in ready:
                asks, _ = shells.accept()
                if os.fork() == 0:
                    asked_on.close()
                    shells.close()
                    _answer(asks)
                    return
                asks.close()
                continue
        asked, files, _, _ = socket.recv_fds(asked_on, _LARGEST * 2, 3)
        if not asked:
            sys.exit()
        read, write = os.pipe()
        # Forked twice: the parent of the second fork ends at once, so the process that asked becomes its parent.
        between = os.fork()
        if between == 0:
            between = os.getpid()
            if os.fork() != 0:
                os._exit(0)
            for closed in filter(None, (asked_on, shells)):
                closed.detach()
            while os.getppid() == between:
                time.sleep(0.0002)
            program = Program(**json.loads(asked))
            _place(program, files)
            os.write(write, b"%d" % os.getpid())  # only now, so that the session and folder are set, as after an exec
            os.closerange(3, 4096)
            _run(program)
            return
        os.close(write)
        for file in files:
            os.close(file)
        os.waitpid(between, 0)
        asked_on.send(os.read(read, 64))
        os.close(read)


def _answer(asks: socket.socket) -> None:
    """Waits for a program that a shell started and reports its end: see `support.typed`. Returns as `_serve` does."""
    _, user, _ = _SAME_USER.unpack(asks.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _SAME_USER.size))
    said, files, _, _ = socket.recv_fds(asks, _LARGEST * 2, 3)
    asked = json.loads(said or b'{"args": ""}')
    program = _program(asked | {"start_new_session": asked.get("session") != os.getsid(0)})
    if program is None or user != os.getuid():
        os._exit(0)
    pid = os.fork()
    if pid == 0:
        asks.detach()
        _place(program, files)
        os.closerange(3, 4096)
        _run(program)
        return
    for file in (0, 1, 2, *files):
        os.close(file)
    asks.send(b"%d" % pid)
    process = os.pidfd_open(pid)
    if process not in select.select([process, asks.fileno()], [], [])[0]:
        os.kill(pid, signal.SIGKILL)  # the process that asked was killed so; it passes on all other signals
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):
        asks.send(b"%d" % code)
    os._exit(0)


def _place(program: Program, files: Sequence[int]) -> None:
    """Sets session, group, files, and folder before a program is loaded."""
    if program.session:
        os.setsid()
    if program.group >= 0:
        os.setpgid(0, program.group)
    for place, file in enumerate(files):
        os.dup2(file, place)
    os.chdir(program.cwd)


def _run(program: Program) -> None:
    """Runs a program as the interpreter does, but without the teardown: with all that is loaded it takes 70 ms."""
    code = 0
    try:
        _become(program)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    getattr(threading, "_shutdown")()  # noqa: B009
    getattr(atexit, "_run_exitfuncs")()  # noqa: B009
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        # The interpreter reports it and has its own exit code for it.
        sys.exit(code)
    os._exit(code & 0xFF)


def _become(program: Program) -> None:
    """Sets this process up as the interpreter would for the program, and runs it."""
    os.environ.clear()
    os.environ.update(program.environment)
    time.tzset()
    for place, name in enumerate(("stdin", "stdout", "stderr")):
        setattr(sys, name, _text(place, getattr(sys, name)))
        setattr(sys, f"__{name}__", getattr(sys, name))
    sys.path[:] = program.path + _PATH
    sys.argv[:] = ["-c" if program.kind == "-c" else program.name, *program.arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    match program.kind:
        case "-m":
            if program.name.startswith(_STARTERS):
                _install_here()
            sys.modules.pop(program.name, None)  # it must be loaded as `__main__` only
            runpy.run_module(program.name, run_name="__main__", alter_sys=True)
        case "-c":
            sys.modules["__main__"] = main = ModuleType("__main__")
            exec(compile(program.name, "<string>", "exec"), main.__dict__)
        case _:
            runpy.run_path(program.name, run_name="__main__")


def _install_here() -> None:
    """Starts a fork server for this process, while it has one thread: only then are its programs its children."""
    global _server
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        quiet = os.open(os.devnull, os.O_RDWR)
        for place in range(3):
            os.dup2(quiet, place)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _serve(theirs)
        sys.exit()
    theirs.close()
    _server = _ForkServer(ours)
    install()


def _text(place: int, before: io.TextIOWrapper) -> io.TextIOWrapper:
    """Opens a standard stream as the interpreter does: line-buffered on a terminal and for stderr."""
    raw = io.FileIO(place, "r" if place == 0 else "w", closefd=False)
    buffered = io.BufferedReader(raw) if place == 0 else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffered,
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=place == 2 or raw.isatty(),
        write_through=bool(os.environ.get("PYTHONUNBUFFERED")),
    )


_PATH: list[str] = []


def main() -> None:
    """The program of the fork server, which `_started` starts."""
    asked_on, shells = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    for asks in (asked_on, shells):
        os.set_inheritable(asks.fileno(), False)
    _environment.update(os.environ)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    before = os.environ["PYTHONPATH"].split(os.pathsep)
    _load()
    _PATH[:] = [entry for entry in sys.path if entry not in before]
    gc.collect()
    gc.freeze()
    _serve(asked_on, shells)


if __name__ == "__main__":
    main()
