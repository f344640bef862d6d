"""What a server tells of where it is: an address that others can use, on whatever it listens."""

import socket
from ipaddress import ip_address

import attrs
import pytest

from tarry.service.http.server.listening import listen_on_host
from tarry.service.own_address import others_reach
from tarry.service.settings import Settings

TLS = Settings(tls_cert="c.pem", tls_key="k.pem")


def told(host: str, settings: Settings | None = None) -> str:
    """By a server that listens there, on a free port, which stands as PORT."""
    with listen_on_host(host.strip("[]"), 0) as sockets:
        port = sockets[0].getsockname()[1]
        own = attrs.evolve(settings or Settings(), listen=f"{host}:{port}")
        return others_reach(own, sockets).replace(str(port), "PORT")


def test_one_address_is_told_as_it_is() -> None:
    assert told("127.0.0.1") == "http://127.0.0.1:PORT"
    assert told("localhost") == "http://localhost:PORT"
    assert told("127.0.0.1", TLS) == "https://127.0.0.1:PORT"


def test_all_addresses_are_none_to_call() -> None:
    url = told("0.0.0.0")
    host = url.removeprefix("http://").removesuffix(":PORT")
    assert host == socket.gethostname() or not ip_address(host).is_unspecified
    with socket.create_server(("0.0.0.0", 0)) as server:
        socket.create_connection((host, server.getsockname()[1]), timeout=5).close()
    assert told("0.0.0.0", TLS) == url.replace("http:", "https:")


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_of_the_newer_kind_too() -> None:
    host = told("[::]").removeprefix("http://").removesuffix(":PORT")
    assert host == socket.gethostname() or not ip_address(host.strip("[]")).is_unspecified


def test_a_machine_without_a_way_out_tells_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    # To all at once: the system refuses a broadcast without leave, as it does where there is no route.
    monkeypatch.setattr("tarry.service.own_address._WORLD", {socket.AF_INET: ("255.255.255.255", 9)})
    assert told("0.0.0.0") == f"http://{socket.gethostname()}:PORT"


def test_a_socket_in_the_file_system_is_told_as_it_is() -> None:
    assert others_reach(Settings(listen="unix:/run/tarry.sock"), []) == "unix:/run/tarry.sock"


def test_what_is_set_goes_before() -> None:
    assert told("0.0.0.0", Settings(advertise="https://a.example:8277/")) == "https://a.example:8277"
    assert told("127.0.0.1", Settings(advertise="http://[2001:db8::7]:80")) == "http://[2001:db8::7]:80"
    set_of_a_socket = Settings(listen="unix:/run/tarry.sock", advertise="http://proxy")
    assert others_reach(set_of_a_socket, []) == "http://proxy"


@pytest.mark.parametrize(
    "value", ["a.example:8277", "http://", "http://a:b", "http://a:70000", "http://a/path", "ftp://a", 7, "http://u@a"]
)
def test_what_is_no_server(value: object) -> None:
    with pytest.raises(ValueError, match=r"such as https://tarry-1\.internal:8277"):
        Settings(advertise=value)  # type: ignore[arg-type]


def test_it_may_be_called_by_what_it_tells() -> None:
    settings = Settings(listen="0.0.0.0:8277", hosts=("tarry.example",), advertise="http://a.example:8277")
    assert settings.names == ("0.0.0.0", "tarry.example", "a.example")
    assert Settings().names == ("127.0.0.1",)
    assert Settings(advertise="none").advertise == ""
