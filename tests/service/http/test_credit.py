"""How much of the server's memory clients have: of requests and of answers, with a key and without one."""

import pytest
import trio
from trio.testing import lockstep_stream_pair

from tarry.service.errors import Overloaded
from tarry.service.http.problems import problem_of
from tarry.service.http.server.connection import Connection
from tarry.service.http.server.ports import CREDIT, Credit, Kept, Receive, Scope, Send
from tarry.service.http.server.terms import LEAST, Limits, Terms, Untaken

BODY = b"x" * 100_000
LIMIT = 4 * len(BODY)


class App:
    """Answers with the bytes that the path says, to whom the query says; as the real one does it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        credit: Credit = scope[CREDIT]
        if key := scope["query_string"].decode():
            credit.know(key)
        body, status = (Kept(BODY) if scope["path"] == "/kept" else BODY), 200
        try:
            credit.check()
            if scope["path"] == "/get":
                credit.hold(len(body))
        except Overloaded as error:
            problem = problem_of(error)
            assert problem is not None
            body, status = b"", problem.status
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def terms(nursery: trio.Nursery) -> Terms:
    terms = Terms(App(), Limits(LIMIT), 20)
    nursery.start_soon(terms.pace.run)
    return terms


async def ask(terms: Terms, nursery: trio.Nursery, target: str) -> trio.abc.Stream:
    """A client's end that takes nothing yet."""
    near, far = lockstep_stream_pair()

    async def serve() -> None:
        async with far:
            await Connection(terms, far).run()

    nursery.start_soon(serve)
    await near.send_all(f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    await trio.testing.wait_all_tasks_blocked()
    return near


async def taken(stream: trio.abc.Stream) -> bytes:
    return b"".join([piece async for piece in stream])


async def test_a_client_has_half_and_others_the_rest(terms: Terms, nursery: trio.Nursery) -> None:
    untaken = terms.keyed.untaken
    mine = [await ask(terms, nursery, "/get?me") for _ in range(4)]
    assert untaken.held == 2 * len(BODY)
    others = [await ask(terms, nursery, f"/get?{name}") for name in ("you", "her", "him")]
    assert untaken.held == LIMIT
    statuses = [(await taken(stream))[9:12] for stream in (*mine, *others)]
    assert statuses == [b"200", b"200", b"503", b"503", b"200", b"200", b"503"]
    await trio.testing.wait_all_tasks_blocked()
    assert untaken.held == 0
    assert (await taken(await ask(terms, nursery, "/get?me")))[9:12] == b"200"


async def test_what_was_done_is_told_all_the_same(terms: Terms, nursery: trio.Nursery) -> None:
    streams = [await ask(terms, nursery, f"/done?{number}") for number in range(4)]
    assert terms.keyed.untaken.held == LIMIT
    for stream in streams:
        assert (await taken(stream)).endswith(BODY)
    await trio.testing.wait_all_tasks_blocked()
    assert terms.keyed.untaken.held == 0


async def test_what_is_kept_anyway_takes_nothing(terms: Terms, nursery: trio.Nursery) -> None:
    streams = [await ask(terms, nursery, "/kept") for _ in range(20)]
    assert terms.keyless.untaken.held == 0
    for stream in streams:
        assert (await taken(stream)).endswith(BODY)


async def test_strangers_have_limits_of_their_own(terms: Terms, nursery: trio.Nursery) -> None:
    streams = [await ask(terms, nursery, "/done") for _ in range(20)]
    assert LEAST // 2 - len(BODY) <= terms.keyless.untaken.held <= LEAST
    assert terms.keyed.untaken.held == 0
    assert (await taken(await ask(terms, nursery, "/get?me")))[9:12] == b"200"
    heard = [await taken(stream) for stream in streams]
    assert {answer[9:12] for answer in heard} <= {b"200", b"503", b""}
    assert sum(answer.endswith(BODY) for answer in heard) <= LEAST // len(BODY)
    await trio.testing.wait_all_tasks_blocked()
    assert terms.keyless.untaken.held == 0


async def test_who_leaves_holds_nothing(terms: Terms, nursery: trio.Nursery) -> None:
    for _ in range(2):
        stream = await ask(terms, nursery, "/get?me")
        await stream.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert terms.keyed.untaken.held == 0


def test_one_alone_passes_always() -> None:
    untaken = Untaken(10)
    untaken.check("me", 1000)
    untaken.hold("me", 1000)
    for client in ("me", "you"):
        with pytest.raises(Overloaded):
            untaken.check(client, 1)
    untaken.free("me", 1000)
    untaken.check("you", 1000)
