"""From bytes to requests: as h11 reads them, wherever the bytes are cut; what is no request is refused."""

import re
from itertools import pairwise
from typing import Any

import h11
import pytest
from attrs import evolve, frozen
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.effort import examples, full
from tarry.service.http.server.parser import END, MAX_HEAD, Head, RequestParser

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: h\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@frozen
class Read:
    """A request that was read whole."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


def parsed(*pieces: bytes) -> tuple[list[Read], RequestParser]:
    """The whole requests, and the parser at the end."""
    parser = RequestParser()
    for piece in pieces:
        while piece := parser.feed(piece):
            pass
    whole: list[Read] = []
    head: Head | None = None
    body = b""
    for event in parser.events:
        if isinstance(event, Head):
            assert head is None
            head, body = event, b""
        elif isinstance(event, bytes):
            body += event
        else:
            assert event is END
            assert head is not None
            whole.append(Read(head.method.encode(), head.target, tuple(head.headers), body))
            head = None
    return whole, parser


def read_by_h11(data: bytes) -> tuple[list[Read], bool]:
    """The whole requests, and whether what follows them is refused."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    connection.receive_data(data)
    whole: list[Read] = []
    request: Any = None
    body = b""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return whole, True
        if isinstance(event, h11.Request):
            request, body = event, b""
            if event.http_version not in (b"1.0", b"1.1"):
                return whole, True
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            headers = tuple((bytes(name), bytes(value)) for name, value in request.headers)
            whole.append(Read(bytes(request.method), bytes(request.target), headers, body))
            connection.send(h11.Response(status_code=404, headers=[(b"content-length", b"0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return whole, False
            connection.start_next_cycle()
        else:
            return whole, False


def test_requests_come_one_after_the_other() -> None:
    whole, parser = parsed(
        GET + POST + b"Content-Length: 3\r\n\r\nabc" + CHUNKED + b"2\r\nde\r\n0\r\nT: x\r\n\r\n" + GET
    )
    assert [(one.method, one.body) for one in whole] == [
        (b"GET", b""),
        (b"POST", b"abc"),
        (b"POST", b"de"),
        (b"GET", b""),
    ]
    assert whole[3].headers == ((b"host", b"h"),)  # and not the trailer
    assert (parser.refused, parser.last, parser.has_unread) == (None, False, True)


REFUSED = {
    "two framings": (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "the same the other way round": (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400),
    "two lengths": (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 400),
    "a list of lengths": (POST + b"Content-Length: 3, 3\r\n\r\n", 400),
    "a length with a sign": (POST + b"Content-Length: +3\r\n\r\n", 400),
    "a length beyond all": (POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", 413),
    "chunks in HTTP/1.0": (CHUNKED.replace(b"1.1", b"1.0"), 400),
    "chunks of chunks": (POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n", 400),
    "chunks twice": (POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "chunks of gzip": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
    "a chunk of no size": (CHUNKED + b"zz\r\n", 400),
    "a chunk of a size with 0x": (CHUNKED + b"0x3\r\nabc\r\n", 400),
    "a chunk longer than it says": (CHUNKED + b"3\r\nabcd\r\n", 400),
    "a header before its name": (b"GET / HTTP/1.1\r\n: x\r\n\r\n", 400),
    "a space before the colon": (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    "a folded header": (b"GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n", 400),
    "a bare line feed": (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    "a NUL": (b"GET / HTTP/1.1\r\nHost: \x00\r\n\r\n", 400),
    "an unknown method": (b"BREW / HTTP/1.1\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "HTTP/0.9": (b"GET /\r\n\r\n", 505),
    "HTTP/3": (b"GET / HTTP/3.0\r\n\r\n", 505),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01", 400),
    "a long target": (b"GET /" + b"x" * MAX_HEAD + b" HTTP/1.1\r\n\r\n", 431),
    "a long header": (b"GET / HTTP/1.1\r\nX: " + b"y" * MAX_HEAD + b"\r\n\r\n", 431),
    "many headers": (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (MAX_HEAD // 5) + b"\r\n", 431),
    "a header without an end": (b"GET / HTTP/1.1\r\nX: " + b"y" * 3 * MAX_HEAD, 431),
}


@pytest.mark.parametrize(("data", "status"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_what_is_no_request_is_refused_behind_those_before_it(data: bytes, status: int, size: int) -> None:
    data = GET + data
    whole, parser = parsed(*[data[start : start + size] for start in range(0, len(data), size)])
    if size > len(data):  # what may be one piece of a long header is refused with the next
        parser.feed(b"y" * (MAX_HEAD + 1))
    assert [one.target for one in whole[:1]] == [b"/a"]
    assert parser.refused is not None
    assert (parser.refused.status, parser.refused.body.executed, len(whole)) == (status, False, 1)
    before = len(parser.events)
    parser.feed(GET)
    assert (len(parser.events), parser.over) == (before, True)


@pytest.mark.parametrize("last", [GET.replace(b"1.1", b"1.0"), GET[:-2] + b"Connection: close\r\n\r\n"])
@pytest.mark.parametrize("behind", [GET, b"\r\n", b"\x00" * 100])
def test_nothing_is_read_behind_the_last_request(last: bytes, behind: bytes) -> None:
    for pieces in ((last + behind,), (last, behind)):
        whole, parser = parsed(*pieces)
        assert (len(whole), parser.last, parser.refused) == (1, True, None)
        assert parser.over or behind == b"\r\n"


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"Content-Length: 28\r\n", GET),
        (b"Transfer-Encoding: chunked\r\n", b"1c\r\n" + GET + b"\r\n0\r\n\r\n"),
        (b"", b""),
    ],
)
@pytest.mark.parametrize("protocol", [b"h2c", b"websocket", b"tls/1.0, h2c"])
@pytest.mark.parametrize("size", [1, 11, 1 << 16])
def test_an_upgrade_is_passed_over(framing: bytes, body: bytes, protocol: bytes, size: int) -> None:
    """Java's HTTP client asks for HTTP/2 with every POST; to llhttp what follows is of that protocol."""
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: !\r\nUpgrade: " + protocol
    data = POST + framing + upgrade + b"\r\n\r\n" + body + GET
    whole, parser = parsed(*[data[start : start + size] for start in range(0, len(data), size)])
    assert [(one.method, one.body) for one in whole] == [(b"POST", GET if body else b""), (b"GET", b"")]
    assert parser.refused is None


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(b"GET /" + b"x" * (MAX_HEAD // 2), id="a head"),
        pytest.param(CHUNKED + b"1\r\na\r\n0\r\nX: ", id="a trailer"),
        pytest.param(CHUNKED + b"1\r\na\r\n1;x=", id="what is said of a chunk"),
    ],
)
def test_what_comes_in_many_feeds_and_is_no_body_has_a_bound(begun: bytes) -> None:
    """llhttp would keep a trailer of any length."""
    parser = RequestParser()
    parser.feed(begun)
    fed = 0
    while parser.refused is None and fed < 1 << 20:
        parser.feed(b"x" * 100)
        fed += 100
    assert fed <= MAX_HEAD + 100
    assert parser.refused is not None
    assert parser.refused.status == 431


TRAILERS = [b"X-%d: %s\r\n" % (number, b"x" * 1000) for number in range(24)]


@pytest.mark.parametrize("feed", [1 << 20, 1000])
@pytest.mark.parametrize(
    "said",
    [
        pytest.param(CHUNKED + b"0\r\n" + b"".join(TRAILERS) + b"\r\n", id="trailers"),
        pytest.param(CHUNKED + b"1\r\na\r\n0\r\n" + b"".join(TRAILERS) + b"\r\n", id="behind a chunk"),
        pytest.param(CHUNKED + b"0\r\n" + b"X: y\r\n" * 3000 + b"\r\n", id="many small ones"),
        pytest.param(CHUNKED + b"0\r\nX: " + b"y" * 24_000 + b"\r\n\r\n", id="a long one"),
        pytest.param(CHUNKED + b"1;x=" + b"y" * 24_000 + b"\r\na\r\n0\r\n\r\n", id="said of a chunk"),
        pytest.param(CHUNKED + b"0;x=" + b"y" * 24_000 + b"\r\n\r\n", id="said of the last chunk"),
        pytest.param(
            b"".join([CHUNKED[:-2], *TRAILERS[:10], b"\r\n0\r\n", *TRAILERS[:10], b"\r\n"]), id="half and half"
        ),
        pytest.param(
            CHUNKED[:-2] + b"Upgrade: h\r\nConnection: upgrade\r\n\r\n0\r\n" + b"".join(TRAILERS) + b"\r\n",
            id="after an upgrade",
        ),
    ],
)
def test_trailers_and_what_is_said_of_a_chunk_are_counted(said: bytes, feed: int) -> None:
    """However it comes: all at once it was not."""
    _, parser = parsed(*(said[at : at + feed] for at in range(0, len(said), feed)))
    assert parser.refused is not None
    assert parser.refused.status == 431


@pytest.mark.parametrize("feed", [1 << 20, 1500, 1])
@pytest.mark.parametrize("before", [0, 1, 1000, 2047, 5000])
@pytest.mark.parametrize("behind", [b"\r\na\r\n0\r\n\r\n", b"\r\na" + b"\n" * 3000])
def test_what_is_said_of_a_chunk_has_its_bytes_to_the_last(before: int, behind: bytes, feed: int) -> None:
    """Wherever it begins and ends in what is read at once."""
    size = 1 if behind.endswith(b"0\r\n\r\n") else 3001
    for more in (0, 1):
        line = (b"%x;x=" % size).ljust(MAX_HEAD - 2 + more, b"y")
        said = CHUNKED + (b"%x\r\n%s\r\n" % (before, b"\n" * before) if before else b"") + line + behind
        _, parser = parsed(*(said[at : at + feed] for at in range(0, len(said), feed)))
        assert (parser.refused is not None) == bool(more)


@pytest.mark.parametrize(
    ("chunks", "body"), [(b"1;x=%s\r\na\r\n0\r\n", b"a"), (b"0;x=%s\r\n", b"")], ids=["of a chunk", "of the last"]
)
def test_trailers_have_their_bytes_beside_what_is_said(chunks: bytes, body: bytes) -> None:
    said = CHUNKED + chunks % (b"y" * 16_000) + b"".join(TRAILERS[:15]) + b"\r\n"
    whole, parser = parsed(said + GET)
    assert parser.refused is None
    assert [one.body for one in whole] == [body, b""]


@pytest.mark.parametrize("behind", [GET, POST + b"Content-Length: 1\r\n\r\nx", CHUNKED + b"1\r\na\r\n0\r\n\r\n"])
@pytest.mark.parametrize("first", [b"", CHUNKED + b"1000\r\n" + b"a" * 4096 + b"\r\n0\r\n\r\n"])
def test_of_requests_that_wait_behind_another_few_are_read(first: bytes, behind: bytes) -> None:
    """Each becomes thirty times its bytes; a body stays what it is."""
    parser = RequestParser()
    data = first + behind * 2000
    left = parser.feed(data)
    assert len(data) - len(left) <= len(first) + 3 * 2048
    whole, _ = parsed(data)
    assert len(whole) == bool(first) + 2000


def test_small_chunks_that_come_together_are_one_piece() -> None:
    parser = RequestParser()
    assert parser.feed(CHUNKED + b"2\r\nab\r\n" * 8000) == b""
    assert [len(event) for event in parser.events if isinstance(event, bytes)] == [16_000]
    assert parser.feed(b"2\r\nab\r\n0\r\n\r\n") == b""
    assert list(parser.events)[2:] == [b"ab", END]


def test_a_body_of_many_small_chunks_has_no_such_bound() -> None:
    whole, parser = parsed(CHUNKED, *[b"1;x=y\r\na", b"\r\n"] * MAX_HEAD, b"0\r\nX: y\r\n\r\n")
    assert parser.refused is None
    assert whole[0].body == b"a" * MAX_HEAD


names = st.sampled_from(
    [b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Upgrade", b"Expect", b"X-a"]
)
values = st.one_of(
    st.sampled_from(
        (b"h", b"0", b"3", b" 3 ", b"03", b"3, 3", b"chunked", b"Chunked", b"identity", b"gzip, chunked", b"close")
    ),
    st.sampled_from((b"keep-alive", b"upgrade", b"h2c", b"100-continue", b"", b"\xff", b"a b\tc")),
    st.binary(max_size=4),
)
headers = st.lists(st.tuples(names, st.sampled_from([b": ", b":", b" : ", b":\t"]), values), max_size=4)
lines = st.tuples(
    st.sampled_from([b"GET", b"POST", b"HEAD", b"CONNECT", b"OPTIONS", b"get", b""]),
    st.sampled_from([b"/a", b"/a?b=%20c", b"*", b"http://h/a", b"h:80", b"/\xff", b"/a b", b""]),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.9", b"HTTP/11"]),
)
bodies = st.sampled_from(
    [b"", b"abc", b"abcd", b"3\r\nabc\r\n0\r\n\r\n", b"3;x=y\r\nabc\r\n0\r\nT: t\r\n\r\n", b"-1\r\n", b"0\r\n\r\n"]
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One that is nearly right."""
    line = b" ".join(draw(lines))
    fields = b"".join(b"".join(one) + b"\r\n" for one in draw(headers))
    host = draw(st.sampled_from([b"Host: h\r\n", b"Host: h\r\n", b""]))
    return line + b"\r\n" + host + fields + b"\r\n" + draw(bodies)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Some of them, with bytes put in, taken out or changed."""
    data = bytearray(b"".join(draw(st.lists(requests(), min_size=1, max_size=3))))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


LET_PASS = (
    b"\r" + GET,
    b"\n" + GET,
    b"\r\n\r\n" + GET,
    GET.replace(b"GET ", b"GET  "),
    GET.replace(b"HTTP/", b"RTSP/"),
)


_LET_PASS = re.compile(rb"(?:\r(?!\n)|(?<!\r)\n)[\r\n]*[A-Za-z]+ |[A-Za-z]+  |RTSP/")
"""The same within other bytes."""


@pytest.mark.parametrize("data", LET_PASS)
def test_what_llhttp_lets_pass_is_read_in_one_way(data: bytes) -> None:
    """h11 refuses all but the third; there is no second request in any of them. llhttp tells nobody where in the bytes
    it is, so that a look of our own would see what begins a feed, and nothing that is pipelined."""
    whole, parser = parsed(data + GET)
    assert ([one.target for one in whole], parser.refused) == ([b"/a", b"/a"], None)


def _as_h11_has_it(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    name, value = header
    return name, value.lower() if name == b"transfer-encoding" else value


@pytest.mark.slow
@full
@settings(max_examples=examples(400, 2000), deadline=None, derandomize=True)
@given(data=streams(), cuts=st.lists(st.integers(0, 300), max_size=4))
@example(data=GET + GET, cuts=[5])
@example(data=CHUNKED.replace(b"chunked", b"Chunked") + b"3\r\nabc\r\n0\r\n\r\n", cuts=[])
def test_it_reads_what_h11_reads(data: bytes, cuts: list[int]) -> None:
    whole, parser = parsed(data)
    edges = sorted({0, len(data), *[min(cut, len(data)) for cut in cuts]})
    in_pieces, of_pieces = parsed(*[data[a:b] for a, b in pairwise(edges)])
    assert in_pieces == whole
    assert (of_pieces.refused is None) == (parser.refused is None)
    model, refused = read_by_h11(data)
    for ours, theirs in zip(whole, model, strict=False):
        assert evolve(ours, headers=tuple(map(_as_h11_has_it, ours.headers))) == theirs
    if refused and not _LET_PASS.search(data):
        assert len(whole) <= len(model), f"h11 refuses what follows {model}"
