"""POST /v1/topics/{topic}/messages: what reaches the node, what comes back, what is refused and where it points."""

import base64
import hashlib
from typing import Any

import httpx
import pytest

from support.in_one import in_one
from support.spied import NOW, SpiedServer
from support.wrong_input import faults
from tarry.store.records import Publication
from tarry.store.stream.placing import queue_of_key

ORDERS = "/v1/topics/orders/messages"
DAY = 86_400_000
NIGHT = ["2026-11-21T22:00:00Z", "2026-11-22T06:00:00+00:00"]


def publications(server: SpiedServer) -> list[Publication]:
    return [publication for (publication,) in server.all("intake.publish")]


async def test_a_message_for_now_goes_to_the_stream(client: httpx.AsyncClient, server: SpiedServer) -> None:
    response = await client.post(ORDERS, json={"body": {"order": 7}, "key": "order-7", "headers": {"a": "b"}})
    assert response.status_code == 201
    id_ = response.json()["id"]
    assert response.json() == {
        "id": id_,
        "topic": "orders",
        "state": "published",
        "deliver_at": "2026-11-21T10:00:00.000Z",
        "queue": 0,
        "offset": 0,
    }
    message = (await client.get(f"/v1/messages/{id_}")).json()
    assert (message["body"], message["key"], message["headers"]) == ({"order": 7}, "order-7", {"a": "b"})
    (draft,) = publications(server)[0].drafts
    assert (draft.key, draft.headers, draft.deliver_at, draft.content_type) == ("order-7", b'{"a":"b"}', None, None)


async def test_a_body_keeps_its_bytes(client: httpx.AsyncClient, server: SpiedServer) -> None:
    written = b'{ "b":1.50,  "a" : "\\u00e9" , "n": 12345678901234567890 }'
    response = await client.post(ORDERS, content=b'{"body":  ' + written + b' , "key": "k"}')
    assert response.status_code == 201
    assert publications(server)[0].drafts[0].body == written
    assert b'"body":' + written in (await client.get(f"/v1/messages/{response.json()['id']}")).content


async def test_null_is_a_body_and_nothing_is_none(client: httpx.AsyncClient, server: SpiedServer) -> None:
    assert (await client.post(ORDERS, json={"body": None})).status_code == 201
    assert publications(server)[0].drafts[0].body == b"null"
    response = await client.post(ORDERS, json={"key": "k"})
    assert faults(response) == ["/body"]


async def test_bytes_come_in_base64(client: httpx.AsyncClient, server: SpiedServer) -> None:
    body = base64.b64encode(b"\x00\xff").decode()
    response = await client.post(
        ORDERS, json={"messages": [{"body_base64": body, "content_type": "image/png"}, {"body_base64": ""}]}
    )
    assert response.status_code == 201
    drafts = publications(server)[0].drafts
    assert [(draft.body, draft.content_type) for draft in drafts] == [
        (b"\x00\xff", "image/png"),
        (b"", "application/octet-stream"),
    ]


@in_one(
    ("when", "deliver_at"),
    [
        ({}, None),
        ({"delay": None, "deliver_at": None}, None),
        ({"delay": 0}, None),
        ({"delay": 1500}, NOW + 1500),
        ({"delay": "48h"}, NOW + 2 * DAY),
        ({"delay": "PT10M"}, NOW + 600_000),
        ({"delay": "3650d"}, NOW + 3650 * DAY),
        ({"deliver_at": "2026-11-21T12:00:00.5+01:00"}, NOW + 3_600_500),
        ({"deliver_at": "2020-01-01T00:00:00Z"}, 1_577_836_800_000),
        ({"deliver_at": "1950-01-01T00:00:00Z"}, -631_152_000_000),
    ],
)
async def test_when(
    client: httpx.AsyncClient, server: SpiedServer, when: dict[str, Any], deliver_at: int | None
) -> None:
    response = await client.post(ORDERS, json={"body": 1, **when})
    assert response.status_code == 201, response.text
    assert publications(server)[0].drafts[0].deliver_at == deliver_at
    later = deliver_at is not None and deliver_at > NOW
    assert response.json()["state"] == ("scheduled" if later else "published")
    assert ("offset" in response.json()) is not later


@in_one(
    ("wrong", "pointer", "words"),
    [
        ({"delay": "1h", "deliver_at": "2026-11-22T10:00:00Z"}, "/delay", "leave one of them out"),
        ({"delay": -1}, "/delay", "negative"),
        ({"delay": "-1h"}, "/delay", "negative"),
        ({"delay": "3651d"}, "/delay", "between"),
        ({"delay": "P1M"}, "/delay", "no fixed length"),
        ({"delay": 1.5}, "/delay", "a whole number, a string or null, not a number with a fraction"),
        ({"delay": True}, "/delay", "not true or false"),
        ({"deliver_at": "2026-11-22T10:00:00"}, "/deliver_at", "add Z"),
        ({"deliver_at": "2037-11-22T10:00:00Z"}, "/deliver_at", "ahead"),
        ({"deliver_at": 5}, "/deliver_at", "it must be a string"),
        ({"key": ""}, "/key", "1 to 255"),
        ({"key": "é" * 128}, "/key", "256 bytes"),
        ({"tag": "x" * 256}, "/tag", "256 bytes"),
        ({"ordering_key": ""}, "/ordering_key", "1 to 255"),
        ({"idempotency_key": "x" * 256}, "/idempotency_key", "256 bytes"),
        ({"headers": {"a": 1}}, "/headers", "of one of its members: it must be a string"),
        ({"headers": {"": "a"}}, "/headers", "needs a name"),
        ({"headers": {"a": "x" * 16_385}}, "/headers", "16384 bytes"),
        ({"headers": []}, "/headers", "it must be an object"),
        ({"queue": 3}, "/queue", "has 1 queue, number 0, and no 3"),
        ({"queue": -1}, "/queue", "it must be a whole number, 0 at the least"),
        ({"content_type": "text/plain"}, "/content_type", "goes with body_base64"),
        ({"body_base64": "AA=="}, "/body", "not both"),
        ({"dealy": 5}, "/dealy", "did you mean `delay`"),
        ({"a/b~c": 5}, "/a~1b~0c", "unknown field"),
        ({"key": 5}, "/key", "it must be a string"),
        ({"deliver_between": NIGHT[::-1]}, "/deliver_between", "does not end after it begins"),
        ({"deliver_between": [NIGHT[0]] * 2}, "/deliver_between", "does not end after it begins"),
        ({"deliver_between": ["2026-11-20T00:00:00Z", "2026-11-21T10:00:00Z"]}, "/deliver_between", "is over"),
        ({"deliver_between": ["2026-11-21T22:00:00Z", "2026-11-28T22:00:01Z"]}, "/deliver_between", "1w wide at most"),
        ({"deliver_between": ["2109-01-01T00:00:00Z", "2109-01-01T01:00:00Z"]}, "/deliver_between/1", "ahead"),
        ({"deliver_between": ["22:00", "06:00"]}, "/deliver_between/0", ""),
        ({"deliver_between": NIGHT[:1]}, "/deliver_between", ""),
        ({"deliver_between": NIGHT, "delay": "1h"}, "/deliver_between", "there is a delay too"),
        ({"deliver_between": NIGHT, "deliver_at": NIGHT[0]}, "/deliver_between", "there is a deliver_at too"),
    ],
)
async def test_what_is_wrong_is_pointed_at(
    client: httpx.AsyncClient, server: SpiedServer, wrong: dict[str, Any], pointer: str, words: str
) -> None:
    response = await client.post(ORDERS, json={"body": 1, **wrong})
    assert faults(response) == [pointer]
    assert words in response.json()["errors"][0]["detail"]
    batch = await client.post(ORDERS, json={"messages": [{"body": 1}, {"body": 1, **wrong}]})
    assert faults(batch) == [f"/messages/1{pointer}"]
    assert publications(server) == []


@in_one(
    ("wrong", "pointer"),
    [
        *(({"body_base64": text}, "/body_base64") for text in ("A", "A*==", 5)),
        *(({"body_base64": "AA==", "content_type": type_}, "/content_type") for type_ in ("", "é", "a\nb", "x" * 256)),
    ],
)
async def test_what_is_wrong_with_bytes_is_pointed_at(
    client: httpx.AsyncClient, wrong: dict[str, Any], pointer: str
) -> None:
    response = await client.post(ORDERS, json=wrong)
    assert faults(response) == [pointer]


@in_one(
    ("sent", "words"),
    [
        (b"{", "the JSON is truncated"),
        (b"{}}", "trailing characters (byte"),
        (b'{"body": tru}', "byte"),
        (b"\xef\xbb\xbf{}", "byte 0"),
        (b'{"key": "\xff"}', "UTF-8"),
        (b'{"messages": []}', "it must have 1 item at the least"),
        (b'{"body": 1, "deliver_between": []}', "it must have 2 items"),
        (b'{"body_base64": 1}', "it must be a string of base64 or null, not a whole number"),
        (b"[]", "it must be an object, not an array"),
        (b'{"body": ' + b"[" * 100_000, "too deeply"),
    ],
)
async def test_malformed_json_is_refused_with_its_place(client: httpx.AsyncClient, sent: bytes, words: str) -> None:
    response = await client.post(ORDERS, content=sent[:8000])
    assert response.status_code == 400
    assert words in response.json()["detail"]


@in_one(
    ("sent", "pointer"),
    [
        (rb'{"body": "\ud800"}', "/body"),
        (rb'{"body": {"a/b": [1, "x\udc00"]}}', "/body/a~1b/1"),
        (rb'{"body": {"\ud800": 1}}', "/body"),
        (rb'{"body": "\ud800\u0041"}', "/body"),
        (rb'{"body": 1, "key": "\ud800"}', "/key"),
        (rb'{"messages": [{"body": 1}, {"body": "\ud83d\ude00\ud83d"}]}', "/messages/1/body"),
        (rb'{"messages": [{"body": 1, "key": "\ud800x"}]}', "/messages/0/key"),
    ],
)
async def test_half_of_a_character_is_told_with_its_place(client: httpx.AsyncClient, sent: bytes, pointer: str) -> None:
    response = await client.post(ORDERS, content=sent)
    assert faults(response) == [pointer]
    assert "surrogate pair that stands alone" in response.json()["detail"]


async def test_a_pair_is_a_character(client: httpx.AsyncClient) -> None:
    assert (await client.post(ORDERS, content=rb'{"body": "\ud83d\ude00"}')).status_code == 201


@in_one("body", [b'"\xff"', b'"\\ud800"', b"1e999", b"[" * 990 + b"]" * 990])
async def test_a_body_that_others_could_not_read_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    # Its bytes would be passed on as they are, and make the whole answer to a claim unreadable.
    response = await client.post(ORDERS, content=b'{"messages": [{"body": 1}, {"body": ' + body + b"}]}")
    assert response.status_code == 400


async def test_a_batch_is_one_publication_in_order(client: httpx.AsyncClient, server: SpiedServer) -> None:
    response = await client.post(ORDERS, json={"messages": [{"body": n} for n in range(5)]})
    assert response.status_code == 201
    ids = [receipt["id"] for receipt in response.json()["messages"]]
    assert [(await client.get(f"/v1/messages/{id_}")).json()["body"] for id_ in ids] == [0, 1, 2, 3, 4]
    (publication,) = publications(server)
    assert [draft.body for draft in publication.drafts] == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_batch_tells_all_that_is_wrong(client: httpx.AsyncClient) -> None:
    messages: list[dict[str, Any]] = [{"body": 1, "key": ""}, {"body": 1}, {}, {"body": 1, "delay": -1, "tag": ""}]
    response = await client.post(ORDERS, json={"messages": messages})
    assert faults(response) == ["/messages/0/key", "/messages/2/body", "/messages/3/tag", "/messages/3/delay"]


@in_one(
    ("batch", "status", "pointer"),
    [
        ({"messages": []}, 400, "/messages"),
        ({"messages": None}, 400, "/messages"),
        ({"messages": {}}, 400, "/messages"),
        ({"messages": [1]}, 400, "/messages/0"),
        ({"messages": [{"body": 1}] * 6}, 413, "/messages"),
        ({"messages": [{"body": 1}], "body": 1}, 400, "/body"),
        ({"messages": [{"body": 1}, {"body": 1, "idempotency_key": "a"}]}, 400, "/messages/1/idempotency_key"),
    ],
)
async def test_what_is_no_batch_is_refused(
    client: httpx.AsyncClient, server: SpiedServer, batch: dict[str, Any], status: int, pointer: str
) -> None:
    response = await client.post(ORDERS, json=batch)
    assert faults(response, status) == [pointer]
    assert publications(server) == []


async def test_an_idempotency_key_gives_the_first_answer_again(client: httpx.AsyncClient, server: SpiedServer) -> None:
    request: dict[str, Any] = {"body": 1, "idempotency_key": "a"}
    first = await client.post(ORDERS, json=request)
    again = await client.post(ORDERS, json=request)
    assert "replayed" not in first.json()
    assert again.status_code == 201
    assert again.json() == first.json() | {"replayed": True}
    other = await client.post(ORDERS, json={"body": 2, "idempotency_key": "a"})
    assert other.status_code == 422
    assert other.json()["type"] == "/problems/idempotency-conflict"
    assert (await client.get("/v1/topics/orders")).json()["accepted"] == 1


async def test_the_fingerprint_is_of_the_request_as_sent(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await client.post(ORDERS, content=b'{"body": 1}', headers={"Idempotency-Key": "k"})
    await client.post(ORDERS, content=b'{"body": 1}')  # compared with nothing
    expected = [hashlib.sha256(b'orders\n{"body": 1}').digest(), b""]
    assert [publication.fingerprint for publication in publications(server)] == expected


@pytest.mark.parametrize(
    ("header", "field", "status", "key"),
    [
        ("a", None, 201, "a"),
        (None, "a", 201, "a"),
        ("a", "a", 201, "a"),
        ("a", "b", 400, None),
        ("", None, 400, None),
        ("x" * 256, None, 400, None),
        ("ключ", None, 201, "ключ"),
    ],
)
@pytest.mark.parametrize("shape", [{"body": 1}, {"messages": [{"body": 1}]}])
async def test_the_idempotency_key_comes_as_header_or_field(
    client: httpx.AsyncClient,
    server: SpiedServer,
    header: str | None,
    field: str | None,
    status: int,
    key: str | None,
    shape: dict[str, Any],
) -> None:
    headers = [] if header is None else [(b"Idempotency-Key", header.encode())]
    content = shape if field is None else shape | {"idempotency_key": field}
    response = await client.post(ORDERS, json=content, headers=httpx.Headers(headers))
    assert response.status_code == status
    assert [publication.idempotency_key for publication in publications(server)] == ([key] if status == 201 else [])


async def test_a_named_queue_is_taken(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.topic(queues=3)
    response = await client.post(ORDERS, json={"body": 1, "queue": 2})
    assert response.json()["queue"] == 2


async def test_nothing_comes_into_being_by_a_bad_request(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await client.post(ORDERS, json={"body": 1, "delay": -1})
    assert (await client.get("/v1/topics")).json()["topics"] == []


@in_one("name", ["a b", "é", "x" * 250, "a%00"])
async def test_a_bad_topic_name_is_refused(client: httpx.AsyncClient, name: str) -> None:
    response = await client.post(f"/v1/topics/{name}/messages", json={"body": 1})
    assert response.status_code == 400
    assert "letters, digits" in response.json()["detail"]


async def test_a_name_is_no_step_of_a_path(client: httpx.AsyncClient) -> None:
    # A client that shortens paths would mean the topic where it names ".." of its groups.
    for path in ("/v1/topics/%2E%2E", "/v1/topics/%2E", "/v1/topics/orders/groups/%2E%2E"):
        response = await client.put(path)
        assert (response.status_code, "one dot or two" in response.json()["detail"]) == (400, True)


async def test_an_ordering_key_has_one_queue_in_an_ordered_topic(
    client: httpx.AsyncClient, server: SpiedServer
) -> None:
    await server.topic("events", queues=3)
    fields = {"body": 1, "ordering_key": "a"}
    for number in range(3):
        other = await client.post("/v1/topics/events/messages", json=fields | {"queue": number})
        assert other.status_code == 201
    own = queue_of_key(await server.topic(queues=3, ordered=True), "a").number
    for number in range(3):
        response = await client.post(ORDERS, json={"messages": [fields | {"queue": number}]})
        assert response.status_code == (201 if number == own else 400)
        if number != own:
            (fault,) = response.json()["errors"]
            assert fault["pointer"] == "/messages/0/queue"
            assert f"queue {own}" in fault["detail"]
        assert (await client.post(ORDERS, json={"body": 1, "queue": number})).status_code == 201


async def test_between_two_times(client: httpx.AsyncClient, server: SpiedServer) -> None:
    response = await client.post(ORDERS, json={"body": 1, "key": "order-7", "deliver_between": NIGHT})
    assert response.status_code == 201
    receipt = response.json()
    assert (receipt["state"], "load" in receipt) == ("scheduled", False)
    assert "2026-11-21T22:00:00.000Z" <= receipt["deliver_at"] < "2026-11-22T06:00:00.000Z"
    messages = [{"body": i, "deliver_between": NIGHT} for i in range(5)]
    response = await client.post(ORDERS, json={"messages": messages})
    times = [one["deliver_at"][:19] for one in response.json()["messages"]]
    assert len({*times, receipt["deliver_at"][:19]}) == 6, "each has a second of its own"


async def test_a_request_that_comes_again_has_its_first_place(client: httpx.AsyncClient, server: SpiedServer) -> None:
    request = {"body": 1, "deliver_between": NIGHT, "idempotency_key": "once"}
    first = (await client.post(ORDERS, json=request)).json()
    again = (await client.post(ORDERS, json=request)).json()
    assert again == first | {"replayed": True}


SOON = "2026-11-21T11:00:00Z"


@pytest.mark.parametrize(
    "request_",
    [
        {"body": 1, "expires_at": SOON},
        {"body": 1, "delay": "40m", "expires_at": SOON},
        {"body": 1, "deliver_between": ["2026-11-21T10:30:00Z", SOON]},
        {"messages": [{"body": 1}, {"body": 2, "expires_at": SOON}]},
    ],
)
@pytest.mark.parametrize("minutes", [30, 90])
async def test_what_was_accepted_is_so_when_its_times_are_past(
    client: httpx.AsyncClient, server: SpiedServer, request_: dict[str, Any], minutes: int
) -> None:
    request = request_ | {"idempotency_key": "once"}
    first = await client.post(ORDERS, json=request)
    assert first.status_code == 201
    server.ms += minutes * 60_000
    again = await client.post(ORDERS, json=request)
    assert again.status_code == 201, again.text
    told = [one.json().get("messages", [one.json()]) for one in (first, again)]
    assert [one["id"] for one in told[0]] == [one["id"] for one in told[1]]
    assert all(one["replayed"] for one in told[1])
    if minutes == 90:
        other = await client.post(ORDERS, json=request | {"idempotency_key": "twice"})
        assert other.status_code == 400, "a new request is judged"
        changed = await client.post(ORDERS, json=request | {"idempotency_key": "once", "tag": "t"} | request_)
        assert changed.status_code == 400, "another request with its key, too"
    nowhere = {"body": 1, "expires_at": "2026-11-21T09:00:00Z", "idempotency_key": "k"}
    assert (await client.post("/v1/topics/new/messages", json=nowhere)).status_code == 400
    assert (await client.get("/v1/topics/new")).status_code == 404, "what is refused makes no topic"


async def test_the_last_time_that_can_be_said(client: httpx.AsyncClient, server: SpiedServer) -> None:
    """Rounded up it is past the year 9999, and can be told all the same: else nobody could claim the message."""
    end = "9999-12-31T23:59:59.9999Z"
    made = (await client.post(ORDERS, json={"body": 1, "expires_at": end})).json()
    told = (await client.get(f"/v1/messages/{made['id']}")).json()
    claim = await client.post("/v1/topics/orders/groups/shop/claim", json={"client": "c"})
    (given,) = claim.json()["messages"]
    assert told["expires_at"] == given["expires_at"] == "9999-12-31T23:59:59.999Z"
    for when in (end, "9999-12-31T23:00:00Z"):
        page = await client.get(f"/v1/topics/orders/upcoming?width=366d&buckets=2&from={when}")
        assert page.status_code == 200, when
    every = {"topic": "orders", "every": "9d", "body": 1, "starts_at": "9999-12-31T23:00:00Z"}
    assert (await client.put("/v1/schedules/far?dry_run=true", json=every)).status_code == 200


@pytest.mark.parametrize("at", ["1969-12-31T23:59:59.999Z", "1960-02-29T12:00:00.000Z", "0001-01-01T00:00:00.000Z"])
async def test_a_time_before_1970_is_told_as_it_was_given(
    client: httpx.AsyncClient, server: SpiedServer, at: str
) -> None:
    """It means now, and so does any time that is past."""
    topic = await server.topic()
    await server.group(topic, "shop")
    many = {"messages": [{"body": 1, "deliver_at": at}]}
    told = [
        (await client.post(ORDERS, json={"body": 1, "deliver_at": at, "idempotency_key": "k"})).json(),
        (await client.post(ORDERS, json={"body": 1, "deliver_at": at, "idempotency_key": "k"})).json(),
        (await client.post(ORDERS, json=many)).json()["messages"][0],
        (await client.put("/v1/topics/orders/timers/k", json={"body": 1, "deliver_at": at})).json(),
    ]
    waits = (await client.post(ORDERS, json={"body": 1, "delay": "1h"})).json()
    told.append((await client.patch(f"/v1/messages/{waits['id']}", json={"deliver_at": at})).json())
    assert [one["deliver_at"] for one in told] == [at] * 5
    given: list[dict[str, Any]] = []
    while len(given) < 4:
        claim = await client.post("/v1/topics/orders/groups/shop/claim", json={"client": "c", "wait": "5s"})
        given += claim.json()["messages"]
    assert {one["deliver_at"] for one in given} == {at}
    found = [(await client.get(f"/v1/messages/{one['id']}")).json() for one in given]
    assert {one["deliver_at"] for one in found} == {at}


async def test_how_full_its_second_is(client: httpx.AsyncClient, server: SpiedServer) -> None:
    """Known of the hour under way; of what is sent at once nothing is said."""
    await server.node.loader.recovered.wait()  # what comes before may be counted twice
    for many in range(1, 4):
        receipt = (await client.post(ORDERS, json={"body": 1, "delay": "1m"})).json()
        assert (receipt["load"], "late_by" in receipt) == (many, False)
    server.node.promotion.pace.note(100, 100)  # one a second
    receipt = (await client.post(ORDERS, json={"body": 1, "delay": "1m"})).json()
    assert (receipt["load"], receipt["late_by"]) == (4, 3000)
    assert "load" not in (await client.post(ORDERS, json={"body": 1})).json()
    timer = (await client.put("/v1/topics/orders/timers/k", json={"body": 1, "delay": "1m"})).json()
    assert (timer["load"], timer["late_by"]) == (5, 4000)
