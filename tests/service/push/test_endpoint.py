"""Endpoints: what is let through, and which addresses."""

import itertools
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.service.push.addresses import read_networks, refused
from tarry.service.push.endpoint import read_endpoint

HOME = read_networks(["127.0.0.0/8", "fd00::/8"])


def test_taken_apart() -> None:
    one = read_endpoint("https://Hooks.Example.com:8443/in/7?x=%20y", ())
    assert (one.tls, one.host, one.port, one.target) == (True, "hooks.example.com", 8443, "/in/7?x=%20y")
    assert (one.netloc, one.shown) == ("hooks.example.com:8443", "https://hooks.example.com:8443")
    assert read_endpoint("https://example.com", ()).target == "/"
    assert read_endpoint("https://example.com?a", ()).target == "/?a"
    assert read_endpoint("https://[2606:4700::1111]/", ()).address == ip_address("2606:4700::1111")
    assert read_endpoint("https://example.com./", ()).host == "example.com"
    assert read_endpoint("http://127.0.0.1:80/", HOME).port == 80
    assert read_endpoint("http://inside.test/", HOME).address is None


WRONG = {
    "no URL": ["ftp://example.com/", "example.com/hook"],
    "https": ["http://example.com/"],
    "user": ["https://user:pw@example.com/", "https://example.com@127.0.0.1/"],
    "not host": ["https:///path", "https://example.com:/", "https://[fe80::1%25eth0]/"],
    "no host": ["https://-x.example.com/", "https://a..example.com/"],
    "no port": ["https://example.com:0/", "https://example.com:65536/"],
    "no address": [f"https://{host}/" for host in ("2130706433", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1.")],
    "public": ["https://127.0.0.1/", "https://[::1]/", "https://[::ffff:169.254.169.254]/"],
    "fragment": ["https://example.com/#there"],
    "ASCII": [
        *["https://example.com/ü", "https://exämple.com/", "https://example.com/a b"],
        *["https://example.com/\r\nHost: x", "https://example.com\\@127.0.0.1/"],
    ],
    "2048": [f"https://example.com/{'x' * 2048}"],
}


@pytest.mark.parametrize(("url", "wrong"), [(url, wrong) for wrong, urls in WRONG.items() for url in urls])
def test_not_let_through(url: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        read_endpoint(url, ())


def test_without_tls_only_where_the_setting_says_so() -> None:
    with pytest.raises(ValueError, match="https"):
        read_endpoint("http://8.8.8.8/", HOME)
    assert read_endpoint("http://[fd00::7]/", HOME).address == ip_address("fd00::7")


CLOSED = {
    "of nobody": ["0.0.0.0", "255.255.255.255", "::", "100::1", "5f00::1"],
    "of the host itself": ["127.0.0.1", "::1"],
    "of a link": ["169.254.169.254", "fe80::1"],
    "private": ["10.1.2.3", "172.31.0.1", "192.168.1.1", "100.100.100.200", "fc00::1", "fd00:ec2::254", "fec0::1"],
    "of a cloud": ["168.63.129.16"],
    "of examples and tests": ["192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.9", "2001:db8::1"],
    "of many": ["224.0.0.1", "239.1.1.1", "ff02::1"],
    "one within another": ["::ffff:127.0.0.1", "::ffff:0.0.0.0", "::ffff:10.0.0.1", "::127.0.0.1"],
    "a tunnel": ["2002:7f00:1::", "2001:0:1::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808"],
}


@pytest.mark.parametrize("address", [*itertools.chain(*CLOSED.values())])
def test_closed(address: str) -> None:
    assert refused(ip_address(address), ()) is not None


@pytest.mark.parametrize("address", ["8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_open(address: str) -> None:
    assert refused(ip_address(address), ()) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.9.9.9", "fd12::1", "64:ff9b::7f00:1"])
def test_allowed(address: str) -> None:
    assert refused(ip_address(address), HOME) is None


@pytest.mark.slow
@given(st.ip_addresses(v=4))
def test_an_address_in_another_is_judged_as_itself(address: object) -> None:
    alone = refused(ip_address(str(address)), ()) is None
    assert (refused(ip_address(f"::ffff:{address}"), ()) is None) == alone
    assert (refused(ip_address(f"64:ff9b::{address}"), ()) is None) == alone
    assert alone <= ip_address(str(address)).is_global


@given(st.ip_addresses(v=6))
def test_what_is_open_is_global(address: object) -> None:
    if refused(ip_address(str(address)), ()) is None:
        assert ip_address(str(address)).is_global or ip_address(str(address)).ipv4_mapped  # type: ignore[union-attr]
