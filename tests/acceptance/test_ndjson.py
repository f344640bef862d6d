"""Messages as lines through a real server's socket: any length in little memory, cuts, slow readers, kills, stops."""

import json
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from support.effort import full, tries
from support.server import client_of, start_server
from tarry.service.demo.server_process import ServerProcess

LINES = "application/x-ndjson"


class Upload:
    """A request whose body is sent in chunks, and whose answer is read meanwhile."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._got = bytearray()
        self._lines: deque[bytes] = deque()
        self._rest = b""

    async def begin(self, topic: str, *headers: str, version: str = "1.1") -> None:
        head = [f"POST /v1/topics/{topic}/messages HTTP/{version}", "Host: localhost", f"Content-Type: {LINES}"]
        await self.stream.send_all("\r\n".join([*head, *headers, "", ""]).encode())

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.stream.send_all(b"0\r\n\r\n")

    async def head(self) -> bytes:
        return await self._until(b"\r\n\r\n")

    async def answer(self) -> dict[str, Any] | None:
        """The next, as soon as it has come; None at the end."""
        while not self._lines:
            size = int(await self._until(b"\r\n"), 16)
            self._rest += (await self._exactly(size + 2))[:-2]
            if not size:
                return None
            *lines, self._rest = self._rest.split(b"\n")
            self._lines += lines
        answer: dict[str, Any] = json.loads(self._lines.popleft())
        return answer

    async def answers(self, most: int | None = None) -> list[dict[str, Any]]:
        """The next so many, or all that come."""
        found: list[dict[str, Any]] = []
        while len(found) != most and (answer := await self.answer()) is not None:
            found.append(answer)
        return found

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self._got:
            await self._more()
        return await self._exactly(self._got.index(mark) + len(mark))

    async def _exactly(self, size: int) -> bytes:
        while len(self._got) < size:
            await self._more()
        taken = bytes(self._got[:size])
        del self._got[:size]
        return taken

    async def _more(self) -> None:
        data = await self.stream.receive_some(1 << 16)
        if not data:
            raise EOFError
        self._got += data


@asynccontextmanager
async def uploading(server: ServerProcess, topic: str) -> AsyncIterator[Upload]:
    with trio.fail_after(60):
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
            upload = Upload(stream)
            await upload.begin(topic, "Transfer-Encoding: chunked")
            yield upload


def lines(messages: Iterable[dict[str, Any]]) -> bytes:
    return b"".join([json.dumps(message).encode() + b"\n" for message in messages])


def stored(server: ServerProcess, topic: str) -> list[Any]:
    """The bodies of the topic's messages, in order of their offsets."""
    found = []
    with client_of(server) as tarry:
        while claim := tarry.claim(topic, "reader", max=1000):
            found += [message.body for message in claim.messages]
            tarry.ack(claim)
    return found


def peak(server: ServerProcess) -> int:
    (line,) = [one for one in Path(f"/proc/{server.pid}/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) << 10


@full
async def test_a_hundred_mebibytes_of_lines_take_little_memory(tmp_path: Path) -> None:
    many = tries(25_000, 100_000)
    body = "x" * (110_000_000 // many)
    with start_server(tmp_path) as server:
        before = peak(server)
        piece = lines({"body": body} for _ in range(100))
        async with uploading(server, "many") as upload, trio.open_nursery() as nursery:

            async def send() -> None:
                for _ in range(many // 100):
                    await upload.send(piece)
                await upload.end()

            nursery.start_soon(send)
            assert (await upload.head()).startswith(b"HTTP/1.1 200")
            offsets = [answer["offset"] for answer in await upload.answers()]
        assert offsets == list(range(many))
        assert len(piece) * many // 100 > 100 << 20
        # The embedded store's cache alone is of 64 MiB.
        assert peak(server) - before < 90 << 20


async def test_answers_come_while_the_request_is_sent(server: ServerProcess) -> None:
    async with uploading(server, "talk") as upload:
        for number in range(3):
            await upload.send(lines([{"body": number}]))
            if not number:
                assert b"transfer-encoding: chunked" in await upload.head()
            assert [answer["offset"] for answer in await upload.answers(1)] == [number]
        await upload.send(b'{"bdoy": 3}\n\n{"body"')
        (error,) = await upload.answers(1)
        assert (error["line"], error["error"]["status"]) == (4, 400)
        await upload.send(b": 4}")
        await upload.end()
        assert [answer["offset"] for answer in await upload.answers()] == [3]
        await upload.begin("talk", "Content-Length: 0")  # on the same connection
        assert b"content-length: 0" in await upload.head()
    assert stored(server, "talk") == [0, 1, 2, 4]


async def test_whoever_says_the_length_and_waits_for_an_answer_has_it(server: ServerProcess) -> None:
    body = lines([{"body": 1}, {"body": 2}])
    first = body.index(b"\n") + 1
    with trio.fail_after(30):
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
            upload = Upload(stream)
            await upload.begin("patient", f"Content-Length: {len(body)}")
            await stream.send_all(body[:first])
            await upload.head()
            assert [answer["offset"] for answer in await upload.answers(1)] == [0]
            await stream.send_all(body[first:])
            assert [answer["offset"] for answer in await upload.answers()] == [1]


@pytest.mark.parametrize("leaves", ["closes", "half-closes"])
async def test_of_a_cut_body_the_last_line_is_not_published(server: ServerProcess, leaves: str) -> None:
    async with uploading(server, leaves) as upload:
        await upload.send(lines({"body": number} for number in range(100)) + b'{"body": 100}')
        if leaves == "half-closes":
            await upload.stream.send_eof()
            await upload.head()
            assert len(await upload.answers(100)) == 100
    found: list[Any] = []
    with trio.fail_after(5):
        while len(found) < 100:
            found += stored(server, leaves)
            await trio.sleep(0.05)
    assert found == list(range(100))


async def test_who_reads_no_answers_is_not_read_from(server: ServerProcess) -> None:
    piece, sent = lines({"body": number} for number in range(1000)), 0
    async with uploading(server, "slow") as upload:
        stands = False
        while not stands:
            with trio.move_on_after(2) as waiting:
                await upload.send(piece)
                sent += 1000
            stands = waiting.cancelled_caught
            assert sent < 1_000_000
        async with trio.open_nursery() as nursery:  # others are served
            nursery.start_soon(trio.to_thread.run_sync, stored, server, "nothing")
        assert (await upload.head()).startswith(b"HTTP/1.1 200")
        offsets = [answer["offset"] for answer in await upload.answers(sent)]  # the rest of a piece was never sent
    assert offsets == list(range(sent))


async def test_who_sends_bad_lines_and_reads_nothing_takes_little_memory(tmp_path: Path) -> None:
    """What is wrong with a line is longer than the line."""
    clients, piece = 20, b"x\n" * 30_000
    with start_server(tmp_path) as server:
        async with uploading(server, "bad") as upload:  # what the first request of all takes is not meant
            await upload.send(piece)
            await upload.head()
            await upload.answers(30_000)
        before = peak(server)

        async def send() -> None:
            async with uploading(server, "bad") as upload:
                stands = False
                while not stands:
                    with trio.move_on_after(2) as waiting:
                        await upload.send(piece)
                    stands = waiting.cancelled_caught

        async with trio.open_nursery() as nursery:
            for _ in range(clients):
                nursery.start_soon(send)
        assert peak(server) - before < clients * 3 << 20


async def test_old_clients_and_careful_ones(server: ServerProcess) -> None:
    body = lines([{"body": 1}, {"body": 2}])
    with trio.fail_after(10):
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
            upload = Upload(stream)
            await upload.begin("careful", f"Content-Length: {len(body)}", "Expect: 100-continue")
            assert await upload.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
            await stream.send_all(body)
            assert (await upload.head()).startswith(b"HTTP/1.1 200")
            assert len(await upload.answers()) == 2
            await upload.begin("careful", f"Content-Length: {len(body)}", version="1.0")
            await stream.send_all(body)
            assert b"connection: close" in await upload.head()
            rest = b"".join([piece async for piece in stream])
            assert bytes(upload._got + rest).count(b'"id"') == 2


@full
async def test_a_request_goes_on_by_its_keys_after_a_kill(tmp_path: Path) -> None:
    keys, many = 10, tries(10_000, 20_000)
    messages = [
        {"body": [number % keys, number], "ordering_key": f"k{number % keys}", "idempotency_key": f"i{number}"}
        for number in range(many)
    ]

    async def publish(server: ServerProcess, heard: Callable[[], None]) -> int:
        """How many answers came."""
        came = 0
        with suppress(trio.BrokenResourceError, EOFError):
            async with uploading(server, "kept") as upload, trio.open_nursery() as nursery:

                async def send() -> None:
                    with suppress(trio.BrokenResourceError):
                        for start in range(0, many, 100):
                            await upload.send(lines(messages[start : start + 100]))
                        await upload.end()

                nursery.start_soon(send)
                try:
                    await upload.head()
                    while (answer := await upload.answer()) is not None:
                        assert "error" not in answer, answer
                        came += 1
                        if came == many // 3:
                            heard()
                except (EOFError, trio.BrokenResourceError):
                    nursery.cancel_scope.cancel()
        return came

    with start_server(tmp_path) as server:
        first = await publish(server, server.kill)
        assert many // 3 <= first < many
        server.start()
        assert await publish(server, lambda: None) == many
        found = stored(server, "kept")
    assert len(found) == many
    of_key = defaultdict(list)
    for key, number in found:
        of_key[key].append(number)
    assert all(numbers == list(range(key, many, keys)) for key, numbers in of_key.items())


async def test_a_stop_ends_a_request_between_two_lines(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        async with uploading(server, "stopped") as upload:
            await upload.send(lines([{"body": 1}, {"body": 2}]) + b'{"bo')
            await upload.head()
            assert [answer["offset"] for answer in await upload.answers(2)] == [0, 1]
            began = time.monotonic()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, server.stop)
                (last,) = await upload.answers()
            assert time.monotonic() - began < 3
        assert (last["line"], last["error"]["type"], last["error"]["executed"]) == (3, "/problems/stopping", False)
        server.start()
        assert stored(server, "stopped") == [1, 2]
