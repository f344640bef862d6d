"""Places on a network of their own: what a cut leaves together, what it parts, and that nothing stays behind."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tarry.bench.campaign.networks import Network, Place, can_be_made, network

LISTEN = "import socket, sys; s = socket.create_server((sys.argv[1], 7777)); print(flush=True); sys.stdin.read()"
REACH = "import socket, sys; socket.create_connection((sys.argv[1], 7777), 2).close()"


@pytest.fixture
def around() -> Generator[Network, None, None]:
    if not can_be_made():
        pytest.skip("only root makes networks, with iproute2")
    try:
        with network() as made:
            yield made
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this root makes no networks: {error}")


@contextmanager
def listening(place: Place) -> Generator[None, None, None]:
    """On its line to clients."""
    command = [*place.within, sys.executable, "-c", LISTEN, place.addresses["clients"]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield


def reaches(place: Place | None, other: Place) -> bool:
    """Without a place it is this process that tries."""
    within = place.within if place is not None else ()
    command = [*within, sys.executable, "-c", REACH, other.addresses["clients"]]
    return not subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode


def links() -> str:
    done = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True)
    return done.stdout


def test_what_is_cut_off_is_with_what_else_is(around: Network) -> None:
    database, server, other = (around.place("clients") for _ in range(3))
    with listening(database):
        assert reaches(server, database)
        assert reaches(other, database)
        database.cut("clients")
        assert not reaches(server, database)
        server.cut("clients")
        assert reaches(server, database)
        assert not reaches(other, database)
        database.join()
        assert not reaches(server, database)
        assert reaches(other, database)
        server.join()
        assert reaches(server, database)


def test_a_line_that_is_cut_leaves_the_others(around: Network) -> None:
    place = around.place("callers", "clients")
    with listening(place):
        assert reaches(None, place)
        place.cut("callers")
        assert reaches(None, place)
        place.cut("clients")
        assert not reaches(None, place)


def test_nothing_of_it_stays_behind(around: Network) -> None:
    name = around.place("clients", "others").name
    assert f"{name}-" in links()
    around.end()
    assert f"{name.partition('-')[0]}-" not in links()


def test_on_loopback_no_line_can_be_cut() -> None:
    place = Network().place("callers", "clients")
    assert (place.within, set(place.addresses.values())) == ((), {"127.0.0.1"})
