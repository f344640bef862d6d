"""Runs a command that was typed into a shell by letting `support.fork_server` fork it: 20 ms, not 600.

    python -I -S tests/support/typed.py ADDRESS MODULE ARGUMENTS...

It runs without site-packages and imports few modules, so its own start is the only cost. It lends the command its
files, forwards signals to it, and ends as it does; if there is no fork server, it replaces itself with the command.
"""

import _socket
import json
import os
import signal
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def ask(address: str, words: list[str]) -> "_socket.socket | None":
    """Asks the fork server to run a command; None if there is no server."""
    asking = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    asked = json.dumps({"args": words, "cwd": os.getcwd(), "env": dict(os.environ), "session": os.getsid(0)})
    files = b"".join(place.to_bytes(4, sys.byteorder) for place in range(3))
    try:
        asking.connect(f"\0{address}")
        asking.sendmsg([asked.encode("utf-8", "surrogateescape")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
    except OSError:
        return None
    return asking


def main() -> None:
    address, *arguments = sys.argv[1:]
    words = [sys.executable, "-m", *arguments]
    asking = ask(address, words)
    pid = int(asking.recv(64) or 0) if asking else 0
    if asking is None or not pid:
        os.execv(words[0], words)
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    code = int(asking.recv(64) or 1)
    if code < 0:
        if -code in PASSED_ON:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
