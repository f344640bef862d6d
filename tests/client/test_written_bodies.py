"""What a user's own `json` writes is read before it is sent or stored: one JSON value, as the server takes it.

What is wrong with one body would else reach everybody who claims it together with others.
"""

import asyncio
import functools
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.scripted_server import ScriptedServer
from tarry.client import AsyncTarry, BadRequest, Draft, Tarry
from tarry.client.bodies import wrong_json
from tarry.client.outbox import Outbox
from tarry.client.outbox.drafts import Limits, entries
from tarry.service.http.reading import wrong_json as wrong_to_the_server

BROKEN = {
    "empty": b"",
    "blank": b" \n",
    "nan": b"NaN",
    "nan within": b'{"price":NaN}',
    "infinity": b"[1,Infinity]",
    "minus infinity": b'{"a":-Infinity}',
    "byte order mark": b"\xef\xbb\xbf{}",
    "another coding": "{}".encode("utf-16"),
    "latin": b'{"name":"\xe9"}',
    "a name in latin": b'{"\xe9":1}',
    "raw surrogate": b'"\xed\xa0\x80"',
    "half a pair": b'{"a":"\\ud800"}',
    "its other half": b'["\\udc00"]',
    "half a pair in a name": b'{"\\ud83d":1}',
    "two values": b"{} {}",
    "a line more": b"1\n2",
    "other members": b'1,"delay":"1h"',
    "the end of the message": b'1},{"body":2',
    "cut off": b'{"a":',
    "not closed": b'"a',
    "trailing comma": b"[1,]",
    "single quotes": b"{'a':1}",
    "bare name": b"{a:1}",
    "comment": b"{} // x",
    "a repr": b"{'a': None}",
    "a name that is no text": b"{1:2}",
    "control character": b'"\x01"',
    "line break in text": b'"a\nb"',
    "zero bytes": b"{}\x00",
    "leading zero": b"007",
    "plus": b"+1",
    "no fraction": b"1.",
    "hexadecimal": b"0x10",
    "unknown escape": b'"\\x41"',
    "out of range": b"1e999",
    "ten thousand digits": b"1" * 10_000,
    "too deep": b"[" * 200_000 + b"]" * 200_000,
    "a level too deep": b'{"a":' + b"[" * 500 + b'"[[["' + b"]" * 500 + b"}",
    "html": b"<p>sorry</p>",
    "undefined": b"undefined",
}
DEEP = b'{"a\\"[":' + b"[" * 499 + b'"[[{\\"[\\\\"' + b"]" * 499 + b"}"
WIDE = b"[" + b"{},[]," * 1000 + b'"' + b"[" * 1000 + b'"]'
SOUND = [
    b"null",
    b"0",
    b"-0.5e3",
    b'""',
    b'"\\ud83d\\ude00"',
    '"ü"'.encode(),
    b" [1, {} ]\n",
    b'{"a":1,"a":2}',
    b"1e-999",
    DEEP,
    WIDE,
]


def through_threads(url: str, write: Callable[[Any], bytes]) -> None:
    with Tarry(url, json=write) as tarry:
        for send in (
            lambda: tarry.publish("t", {"it": 1}),
            lambda: tarry.publish_many("t", [Draft(body=b"as it is"), Draft(body={"it": 1})]),
            lambda: tarry.set_timer("t", "k", {"it": 1}, delay="1h"),
            lambda: tarry.put_schedule("s", every="1h", topic="t", body={"it": 1}),
        ):
            with pytest.raises(ValueError, match=r"^json: what it gave for the body is no JSON: "):
                send()


def through_tasks(url: str, write: Callable[[Any], bytes]) -> None:
    async def send() -> None:
        async with AsyncTarry(url, json=write) as tarry:
            for sending in (
                lambda: tarry.publish("t", {"it": 1}),
                lambda: tarry.publish_many("t", [Draft(body={"it": 1})]),
                lambda: tarry.set_timer("t", "k", {"it": 1}, delay="1h"),
                lambda: tarry.put_schedule("s", every="1h", topic="t", body={"it": 1}),
            ):
                with pytest.raises(ValueError, match=r"^json: what it gave for the body is no JSON: "):
                    await sending()

    asyncio.run(send())


def through_an_outbox(_url: str, write: Callable[[Any], bytes]) -> None:
    outbox = Outbox(json=write)
    nowhere: Any = SimpleNamespace(fetchall=None)  # nothing is asked of it
    for send in (
        lambda: outbox.publish(nowhere, "t", {"it": 1}),
        lambda: outbox.publish_many(nowhere, "t", [Draft(body=b"as it is"), Draft(body={"it": 1})]),
        lambda: outbox.set_timer(nowhere, "t", "k", {"it": 1}, delay="1h"),
    ):
        with pytest.raises(BadRequest, match=r"^body: it is no JSON value: json: what it gave"):
            send()


@pytest.mark.parametrize("through", [through_threads, through_tasks, through_an_outbox])
def test_what_no_reader_can_read_goes_nowhere(script: ScriptedServer, through: Callable[..., None]) -> None:
    for text in BROKEN.values():
        through(script.url, lambda _, text=text: text)
    assert script.requests == []


@pytest.mark.parametrize("text", SOUND)
def test_what_a_reader_can_read_goes_as_it_was_written(text: bytes) -> None:
    (entry,) = entries([Draft(body=0)], Limits(), lambda _: text)
    assert (entry.body, entry.content_type) == (text, None)
    (entry,) = entries([Draft(body=0)], Limits(), lambda _: text.decode())
    assert entry.body == text


def test_the_server_refuses_the_same() -> None:
    for name, text in BROKEN.items():
        assert wrong_json(text) is not None, name
        assert wrong_to_the_server(text) is not None, name
    for text in SOUND:
        assert wrong_json(text) is None
        assert wrong_to_the_server(text) is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (float("nan"), "JSON has no NaN: write null or a text for it"),
        ({"price": [float("-inf")]}, "JSON has no Infinity"),
        ("\ud800", "half of a surrogate pair"),
    ],
)
def test_the_writer_of_the_documents_is_told_what_is_wrong(body: Any, said: str) -> None:
    documented = functools.partial(json.dumps, default=str)
    with pytest.raises(BadRequest, match=f"^body: it is no JSON value: .*{said}"):
        entries([Draft(body=body)], Limits(), documented)
    with pytest.raises(BadRequest, match="half a character"):
        entries([Draft(body=0)], Limits(), lambda _: '"\ud800"')


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"headers": {"a": "\ud800"}}, r"^headers\.a has half a character"),
        ({"headers": {"\ud800": "a"}}, "^a name in headers has half a character"),
        ({"key": 7}, "^key: it is text, and no int"),
        ({"tag": b"t"}, "^tag: it is text, and no bytes"),
        ({"ordering_key": "\udc00"}, "^ordering_key: it holds half a surrogate pair"),
        ({"content_type": "image/\xe9", "body": b""}, "^content_type: "),
        ({"content_type": " erased 1", "body": b""}, "^content_type: "),
    ],
)
def test_an_outbox_refuses_the_other_fields_by_their_names(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        entries([{"body": 0} | fields], Limits())


def test_a_body_nested_too_deeply_is_told_by_its_name(script: ScriptedServer) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadRequest, match=r"^body: it is no JSON value: it is nested too deeply"):
        entries([Draft(body=deep)], Limits())
    with Tarry(script.url) as tarry, pytest.raises(ValueError, match="nested too deeply"):
        tarry.publish("t", deep)
    assert script.requests == []
