"""One post over real sockets: who is connected to, what is read, and how long it may take."""

import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest
import trio
import trio.testing

from support.certificates import write_certificates
from support.failing import failing
from support.posting import NAME, Resolver, post
from support.receiver import OK, Received, Receiver, head, receiver
from tarry.service.push.connections import Connections
from tarry.service.push.lookups import Lookups
from tarry.service.push.posting import Unreached


@pytest.fixture
async def connections(nursery: trio.Nursery) -> Connections:
    connections = Connections()
    nursery.start_soon(connections.run)
    await trio.testing.wait_all_tasks_blocked()
    return connections


async def test_it_goes_to_the_address_under_the_name(there: Receiver) -> None:
    to = Resolver("127.0.0.1")
    answer = await post(f"http://{NAME}:{there.port}/in/7?x=1", to, body=b"hello")
    assert answer.status == 200
    (came,) = there.received
    assert (came.target, came.body) == ("/in/7?x=1", b"hello")
    told = {name: came.headers[name] for name in ("host", "x-one", "content-type", "content-length")}
    assert told == {"host": f"{NAME}:{there.port}", "x-one": "1", "content-type": "text/plain", "content-length": "5"}
    await post(f"http://{NAME}:{there.port}/", to)
    assert to.asked == [NAME, NAME], "at each post"


@pytest.mark.parametrize("address", ["127.0.0.2", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.2", "8.8.8.8"])
async def test_a_name_that_leads_elsewhere(there: Receiver, address: str) -> None:
    """Without TLS not even to what is public."""
    with pytest.raises(Unreached, match="push_allow") as caught:
        await post(f"http://{NAME}:{there.port}/", Resolver(address))
    assert there.received == []
    meant = str(ip_address(address))
    assert meant not in str(caught.value), "who may read the message is not told what a name leads to"
    assert meant in caught.value.found


@pytest.mark.parametrize("address", ["127.0.0.2", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.2"])
async def test_nor_with_tls(address: str) -> None:
    with pytest.raises(Unreached, match="not of the public internet") as caught:
        await post(f"https://{NAME}/", Resolver(address), timeout=2)
    meant = str(ip_address(address))
    assert (meant in str(caught.value), meant in caught.value.found) == (False, True)


async def test_of_several_addresses_only_those_that_may_be(there: Receiver) -> None:
    await post(f"http://{NAME}:{there.port}/", Resolver("10.0.0.1", "127.0.0.1"))
    assert len(there.received) == 1


async def test_a_name_without_an_address(there: Receiver) -> None:
    with pytest.raises(Unreached, match="no address"):
        await post(f"http://{NAME}:{there.port}/", Resolver())
    with pytest.raises(Unreached, match="resolved: no such name") as caught:
        await post(f"https://{NAME}/secret-path", failing(OSError("no such name")))
    assert "secret-path" not in str(caught.value)


async def test_the_machines_own_resolver() -> None:
    assert ip_address("127.0.0.1") in await Lookups()("localhost")


async def test_nobody_listens() -> None:
    with socket.socket() as held:  # so that nobody else comes to listen there
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with pytest.raises(Unreached, match=r"cannot be reached: Connection refused"):
            await post(f"http://127.0.0.1:{port}/")
        for tried in (["127.0.0.1"], ["127.0.0.1", "127.0.0.1"]):
            with pytest.raises(Unreached) as caught:
                await post(f"http://{NAME}:{port}/", Resolver(*tried))
            assert str(caught.value) == f"http://{NAME}:{port} cannot be reached: Connection refused"
            assert caught.value.found.endswith(", at 127.0.0.1")


class TestConnections:
    """What is used again, and what not."""

    @pytest.fixture
    def there(self, there: Receiver) -> Receiver:
        there.keeps = True
        return there

    async def test_one_goes_for_all_that_come_one_after_another(
        self, there: Receiver, connections: Connections
    ) -> None:
        for number in range(5):
            await post(f"http://{NAME}:{there.port}/{number}", Resolver("127.0.0.1"), connections=connections)
        assert [one.target for one in there.received] == ["/0", "/1", "/2", "/3", "/4"]
        assert there.connections == 1

    async def test_nothing_is_kept_before_and_after(self, there: Receiver) -> None:
        for _ in range(2):
            await post(there.url, connections=Connections())
        assert there.connections == 2

    async def test_the_name_is_looked_up_each_time_and_may_lead_elsewhere(
        self, there: Receiver, connections: Connections
    ) -> None:
        """A connection that is open is not gone over, once the name leads where nothing may be posted to."""
        to = Resolver("127.0.0.1")
        await post(f"http://{NAME}:{there.port}/", to, connections=connections)
        to.addresses = ("169.254.169.254", "10.0.0.1")
        with pytest.raises(Unreached, match="push_allow"):
            await post(f"http://{NAME}:{there.port}/", to, connections=connections)
        to.addresses = ("127.0.0.2",)
        with pytest.raises(Unreached, match="cannot be reached") as caught:
            await post(f"http://{NAME}:{there.port}/", to, connections=connections, allowed=["127.0.0.0/8"])
        assert caught.value.found.endswith("at 127.0.0.2")
        assert len(there.received) == 1
        to.addresses = ("10.0.0.1", "127.0.0.1")
        await post(f"http://{NAME}:{there.port}/", to, connections=connections)
        assert (len(there.received), there.connections) == (2, 1)
        assert to.asked == [NAME] * 4

    async def test_another_name_has_its_own(self, there: Receiver, connections: Connections) -> None:
        """The same address and port are not the same endpoint: with TLS another certificate would be due."""
        for name in (NAME, "other.example.com", "127.0.0.1", NAME):
            await post(f"http://{name}:{there.port}/", Resolver("127.0.0.1"), connections=connections)
        assert there.connections == 3

    @pytest.mark.parametrize(
        "answer",
        [
            head(200, "Connection: close"),
            OK + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000,
        ],
    )
    async def test_not_after_an_answer_that_ends_otherwise(
        self, there: Receiver, connections: Connections, answer: bytes
    ) -> None:
        """It says so, more has come than was asked for, or it is longer than what is read."""
        there.answer = lambda _: answer
        for _ in range(2):
            assert (await post(there.url, connections=connections)).status == 200
        assert there.connections == 2

    async def test_what_comes_before_it_is_asked_for_is_no_answer(
        self, there: Receiver, connections: Connections
    ) -> None:
        """Else the next message would be taken for sent by it."""
        there.answer = lambda one: head(500) if one.target == "/2" else OK
        there.after = OK
        await post(f"{there.url}/1", connections=connections)
        await trio.to_thread.run_sync(there.went_on.wait, 5)
        assert (await post(f"{there.url}/2", connections=connections)).status == 500
        assert there.connections == 2

    async def test_one_that_was_closed_meanwhile(self, there: Receiver, connections: Connections) -> None:
        """It is seen before anything goes out."""
        there.keeps = False
        for _ in range(3):
            await post(there.url, connections=connections)
            await trio.sleep(0.05)
        assert (there.connections, len(there.received)) == (3, 3)

    async def test_one_that_dies_without_an_answer_is_tried_once_more_on_a_new_one(
        self, there: Receiver, connections: Connections
    ) -> None:
        """As when the endpoint closes it just then. It may have had the message."""
        times = Counter[str]()

        def answer(one: Received) -> bytes:
            times[one.target] += 1
            return b"" if one.target == "/dies" and times[one.target] == 1 else OK

        there.answer = answer
        await post(there.url, connections=connections)
        assert (await post(f"{there.url}/dies", connections=connections)).status == 200
        assert (times["/dies"], there.connections) == (2, 2)

    async def test_once_and_no_more(self, there: Receiver, connections: Connections) -> None:
        there.answer = lambda one: b"" if one.target == "/dies" else OK
        await post(there.url, connections=connections)
        with pytest.raises(Unreached, match="without sending"):
            await post(f"{there.url}/dies", connections=connections)
        assert [one.target for one in there.received] == ["/", "/dies", "/dies"]
        with pytest.raises(Unreached, match="without sending"):
            await post(f"{there.url}/dies", connections=connections)
        assert len(there.received) == 4, "a new one is not tried again"

    @pytest.mark.parametrize("answer", [b"HTTP/1.1 2", b"garbage\r\n\r\n", None])
    async def test_not_where_an_answer_began_or_none_came_in_time(
        self, there: Receiver, connections: Connections, answer: bytes | None
    ) -> None:
        there.answer = lambda one: answer if one.target == "/bad" else OK
        await post(there.url, connections=connections)
        with pytest.raises(Unreached):
            await post(f"{there.url}/bad", timeout=0.3, connections=connections)
        assert [one.target for one in there.received] == ["/", "/bad"]

    async def test_none_waits_long(
        self, mock_clock: trio.testing.MockClock, there: Receiver, connections: Connections
    ) -> None:
        await post(there.url, connections=connections)
        (waiting,) = connections._idle
        mock_clock.jump(3.9)
        await trio.testing.wait_all_tasks_blocked()
        assert connections._idle == [waiting]
        mock_clock.jump(0.2)
        await trio.testing.wait_all_tasks_blocked()
        assert connections._idle == []
        assert waiting.socket.socket.fileno() == -1, "it is closed"
        await post(there.url, connections=connections)
        assert there.connections == 2

    async def test_none_is_used_for_ever(
        self, mock_clock: trio.testing.MockClock, there: Receiver, connections: Connections
    ) -> None:
        for _ in range(102):
            await post(there.url, connections=connections)
            mock_clock.jump(3)
        assert there.connections == 2

    async def test_so_many_wait_and_no_more(self, there: Receiver, connections: Connections) -> None:
        gate = threading.Event()

        def answer(_: Received) -> bytes:
            gate.wait(10)
            return OK

        there.answer = answer
        async with trio.open_nursery() as nursery:
            for _ in range(110):
                nursery.start_soon(partial(post, there.url, timeout=60, connections=connections))
            await trio.to_thread.run_sync(there.wait_for, 110)
            gate.set()
        assert len(connections._idle) == 100


class TestTLS:
    @pytest.fixture
    def client(self, tmp_path: Path) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(write_certificates(tmp_path, NAME)))

    @pytest.fixture
    def secured(self, client: ssl.SSLContext, tmp_path: Path) -> Iterator[tuple[Receiver, list[str | None]]]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server-key.pem")
        names: list[str | None] = []
        context.sni_callback = lambda _sock, name, _context: names.append(name)
        with receiver(context) as there:
            yield there, names

    async def test_the_name_is_in_it(self, secured: tuple[Receiver, list[str | None]], client: ssl.SSLContext) -> None:
        there, names = secured
        answer = await post(f"https://{NAME}:{there.port}/", Resolver("127.0.0.1"), trusted=client)
        assert (answer.status, names) == (200, [NAME])
        assert there.received[0].headers["host"] == f"{NAME}:{there.port}"

    async def test_one_handshake_for_many(
        self, secured: tuple[Receiver, list[str | None]], client: ssl.SSLContext, connections: Connections
    ) -> None:
        there, names = secured
        there.keeps = True
        for _ in range(4):
            to = Resolver("127.0.0.1")
            await post(f"https://{NAME}:{there.port}/", to, trusted=client, connections=connections)
        assert (names, there.connections, len(there.received)) == ([NAME], 1, 4)
        to = Resolver("127.0.0.1")
        with pytest.raises(Unreached, match="ostname mismatch"):
            await post(f"https://other.test:{there.port}/", to, trusted=client, connections=connections)

    @pytest.mark.parametrize("name", ["other.example.com", "127.0.0.1"])
    async def test_a_certificate_of_another(
        self, secured: tuple[Receiver, list[str | None]], client: ssl.SSLContext, name: str
    ) -> None:
        there, _ = secured
        with pytest.raises(Unreached, match=r"TLS: .*(ostname|IP address) mismatch"):
            await post(f"https://{name}:{there.port}/", Resolver("127.0.0.1"), trusted=client)
        assert there.received == []

    async def test_one_that_nobody_trusts(self, secured: tuple[Receiver, list[str | None]]) -> None:
        there, _ = secured
        with pytest.raises(Unreached, match="TLS: "):
            await post(f"https://{NAME}:{there.port}/", Resolver("127.0.0.1"))
        assert there.received == []

    async def test_no_tls_there(self, there: Receiver) -> None:
        with pytest.raises(Unreached, match="TLS"):
            await post(f"https://127.0.0.1:{there.port}/", timeout=2)


@pytest.mark.parametrize(
    ("bytes_", "wrong"),
    [
        (b"", "without sending"),
        (b"HTTP/1.1 200", "without sending"),
        (b"220 smtp.example.com ESMTP\r\n", "not HTTP"),
        (b"\0" * 100, "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * (100 << 10), "64 KiB"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 5000, "64 KiB"),
    ],
)
async def test_garbage(there: Receiver, bytes_: bytes, wrong: str) -> None:
    there.answer = lambda _: bytes_
    with pytest.raises(Unreached, match=wrong):
        await post(there.url)


@pytest.mark.parametrize(
    "bytes_",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ncut",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (10 << 20),
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nmore",
    ],
)
async def test_the_head_decides(there: Receiver, bytes_: bytes) -> None:
    there.answer = lambda _: bytes_
    assert (await post(there.url)).status == 200


async def test_nothing_is_followed(there: Receiver) -> None:
    there.answer = lambda _: head(302, f"Location: {there.url}/further")
    assert (await post(there.url)).status == 302
    assert len(there.received) == 1
