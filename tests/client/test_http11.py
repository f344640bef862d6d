"""Requests as bytes, and responses of bytes: cut wherever they are, they are the same."""

from itertools import pairwise

import pytest
from httpcore import RemoteProtocolError
from hypothesis import given
from hypothesis import strategies as st

from support.raw_peer import answer
from tarry.client.http11 import Request, Response, ResponseReader, written

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n"
EARLY = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
UNTIL_THE_END = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nabcde"


def heard(reader: ResponseReader, data: bytes, cuts: list[int]) -> tuple[Response | None, bytes]:
    places = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    pieces = [data[begin:end] for begin, end in pairwise(places)]
    content = [part for piece in pieces if piece for part in reader.feed(piece)]
    return reader.head, b"".join(content)


@given(st.lists(st.integers(0, 300), max_size=8))
def test_responses_follow_each_other_on_a_connection(cuts: list[int]) -> None:
    reader = ResponseReader()
    for data in (answer(b"abcde", b"X-Of: 1"), CHUNKED, EARLY + answer(b"abcde"), b"HTTP/1.1 204 No Content\r\n\r\n"):
        reader.begin()
        head, content = heard(reader, data, cuts)
        assert head is not None
        assert (head.status, content) == ((204, b"") if data.startswith(b"HTTP/1.1 204") else (200, b"abcde"))
        assert reader.whole
        assert reader.keeps
        assert head.is_success


def test_what_comes_before_the_answer_is_not_it() -> None:
    reader = ResponseReader()
    assert reader.feed(EARLY) == []
    assert reader.head is None
    reader.feed(answer(b"a"))
    assert reader.head == Response(200, {"content-length": "1"})


@given(st.lists(st.integers(0, 300), max_size=8))
def test_the_end_of_the_connection_ends_what_says_no_length(cuts: list[int]) -> None:
    reader = ResponseReader()
    head, content = heard(reader, UNTIL_THE_END, cuts)
    assert not reader.whole
    assert reader.feed(b"") == []
    assert reader.whole
    assert not reader.keeps
    assert head == Response(200, {"content-type": "text/html"})
    assert content == b"abcde"


@pytest.mark.parametrize("data", [answer(b"abcde"), CHUNKED])
def test_what_is_cut_is_not_whole(data: bytes) -> None:
    for length in range(len(data)):
        reader = ResponseReader()
        if length:
            reader.feed(data[:length])
        with pytest.raises(RemoteProtocolError):
            reader.feed(b"")


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ],
)
def test_what_is_no_response(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="not HTTP"):
        ResponseReader().feed(data)


@pytest.mark.parametrize(
    "data",
    [
        answer(b"a", b"Connection: close"),
        answer(b"a").replace(b"HTTP/1.1", b"HTTP/1.0"),
        answer(b"a") + b"H",
        answer(b"a") + answer(b"b"),
    ],
)
def test_what_ends_a_connection(data: bytes) -> None:
    """Its word, or what was not asked for, which the next caller would take for its answer."""
    reader = ResponseReader()
    with_more = heard(reader, data, [])
    assert with_more[1] == b"a"
    assert reader.whole
    assert not reader.keeps


def test_requests_as_bytes() -> None:
    common = b"Host: h\r\n"
    assert written(Request("GET", "/x"), b"", common) == b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
    asked = Request("GET", "/x", params={"from": "2026-01-01T00:00:00+01:00", "max": 3})
    assert written(asked, b"/p", common).startswith(
        b"GET /p/x?from=2026-01-01T00%3A00%3A00%2B01%3A00&max=3 HTTP/1.1\r\n"
    )
    assert b"Content-Length: 0\r\n" in written(Request("POST", "/x"), b"", common)
    whole = written(Request("POST", "/x", b"{}", "application/json"), b"", common)
    assert whole.endswith(b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")


def feed_often(reader: ResponseReader, data: bytes) -> None:
    for _ in range(100):
        reader.feed(data)


@pytest.mark.parametrize("endless", [b"X: y\r\n" * 1000, b"x" * 10_000])
def test_a_head_without_an_end_is_no_answer(endless: bytes) -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nX: ")
    with pytest.raises(RemoteProtocolError, match="256 KiB"):
        feed_often(reader, endless)


def test_an_answer_that_is_always_yet_to_come_is_none() -> None:
    reader = ResponseReader()
    with pytest.raises(RemoteProtocolError, match="256 KiB"):
        feed_often(reader, b"HTTP/1.1 100 Continue\r\n\r\n" * 200)


def test_what_follows_a_whole_answer_is_nobodys() -> None:
    reader = ResponseReader()
    assert b"".join(reader.feed(answer(b"{}") + b"xx")) == b"{}"
    assert reader.whole
    assert not reader.keeps
