"""What /openapi.json says of bodies is what the server takes: what it forbids is 400, and what it allows is not."""

import itertools
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import msgspec
import pytest
from attrs import field, frozen
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from support.documented import documented
from support.effort import examples, full
from support.json_schema import fits
from support.nodes import name_of
from support.shared import Shared
from support.spied import NOW, SpiedServer
from tarry.service.http.openapi import document
from tarry.service.http.reading import Body
from tarry.service.http.routes import OPERATIONS, Operation
from tarry.service.settings import Settings

WITH_BODY = [operation for operation in OPERATIONS if operation.requests and not operation.path.endswith("/backfill")]
"""Which stretches a schedule can make up for hangs on its calendar and on the clock: test_schedules.py has some."""
USED_UP = ("/{topic}", "/messages", "/{id}", "/claim", "/ack", "/fail")
"""Paths of what is as it was only until somebody was told yes."""
_LOOK = settings(max_examples=5000, database=None, phases=[Phase.generate])
"""That there is one: which one is the simplest is not asked."""


def schema_of(operation: Operation) -> dict[str, Any]:
    described = document()["paths"][operation.path][operation.method.lower()]
    schema: dict[str, Any] = described["requestBody"]["content"]["application/json"]["schema"]
    return schema


@frozen
class House:
    """A server that all examples share, and paths of it that are ready for the next example of an operation."""

    shared: Shared
    _ready: dict[str, str] = field(factory=dict[str, str], init=False)
    _numbers: Iterator[int] = field(factory=itertools.count, init=False)

    def send(self, operation: Operation, body: Any) -> httpx.Response:
        """To a path whose topic has one queue and is ordered; what it names is there, but for a topic to be made."""
        return self.shared.run(partial(self._send, operation, body))

    async def _send(self, operation: Operation, body: Any) -> httpx.Response:
        if operation.path not in self._ready:
            self._ready[operation.path] = await self._prepare(self.shared.server, operation.path)
        path = self._ready[operation.path]
        response = await self.shared.client.request(operation.method, path, content=msgspec.json.encode(body))
        await documented(response)
        if response.is_success and operation.path.endswith(USED_UP):
            del self._ready[operation.path]
        return response

    async def _prepare(self, server: SpiedServer, path: str) -> str:
        name = f"topic-{next(self._numbers)}"
        if not path.endswith("{topic}"):
            topic = await server.topic(name, ordered=True)
            group = await server.group(topic)
            await server.publish(topic, b"1", tag="a")
            if "{id}" in path:
                (receipt,) = await server.publish(topic, b"1", deliver_at=NOW + 60_000)
                path = path.replace("{id}", str(receipt.id))
            if "{claim}" in path:
                path = path.replace("{claim}", name_of(await server.claim(group)))
        return (
            path.replace("{client}", name)
            .replace("{topic}", name)
            .replace("{name}", name)
            .replace("{group}", "billing")
        )


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with Shared(tmp_path_factory.mktemp("bodies") / "tarry.db", Settings(max_wait=1000)) as shared:
        shared.run(shared.server.topic)
        yield House(shared)


def is_as_the_document_says(response: httpx.Response, body: Any, allowed: bool) -> bool:
    """The ids of settlements are allowed, and no messages of the claim."""
    named = body.get("ids") or body.get("begun") if isinstance(body, dict) else None
    if allowed and re.search("/claims/.*/(ack|fail|extend)", response.request.url.path) and named:
        return response.status_code == 409 and response.json()["result"] == "lease_lost"
    return response.is_success if allowed else response.status_code == 400


TIME = "2026-12-01T00:00:00Z"
NIGHT = ["2026-11-30T22:00:00Z", "2026-12-01T06:00:00Z"]
DURATIONS: list[Any] = [0, 1, 10**15 + 1, -1, 1.5, True]
DURATIONS += ["0", "250ms", "1s", "PT0.1S", "", "P", "PT", "10", "-1s", "1 s", "1S", "x"]
TIMES = [TIME, "2026-12-01t00:00:00.123456+01:00", "2026-13-01T00:00:00Z", "2026-12-01T00:00:00", "now", "", 0]
LABELS = ["", "k", "k" * 255, "k" * 256, 7]
IDS = [[], ["7"], ["0"], ["07"], ["x"], [7], "7", [""], [str((1 << 63) - 1)]]
FAILS: list[Any] = [{"ids": ["7"]}, {"ids": "all"}, {"reason": 1}, {"bdoy": 1}, []]
SECRET = f"whsec_{'A' * 32}"
FLAGS = [True, False, 0, "true"]
OFFSETS = [0, 7, -1, (1 << 63) - 1, 1 << 63, 0.5]

# All that a body may have, right and wrong; what hangs on the topic or on the settings is left out.
VALUES: dict[str, list[Any]] = {
    "body": [None, 1, "text", {"a": []}],
    "body_base64": ["", "AP8=", "AP8", "A P8", "-_8=", 1],
    "content_type": ["image/png", "", " x", "ü/x", "x" * 255, "x" * 256],
    "delay": DURATIONS,
    "deliver_at": TIMES,
    "deliver_between": [NIGHT, NIGHT[:1], [NIGHT[0], "x"], "night", [1, 2]],
    "expires_at": ["2200-01-01T00:00:00Z", "2200-01-01", 1],
    **dict.fromkeys(("key", "ordering_key", "tag", "idempotency_key", "name"), LABELS),
    "client": ["c1", "", "c" * 256, 1],
    "headers": [{}, {"a": "b"}, {"": "b"}, {"a": 1}, []],
    "queue": [0, "0", 0.5],
    "messages": [[], [{"body": 1}], [{}], [{"body": 1, "idempotency_key": "k"}], [{"body": 1, "queue": -1}], {}],
    "max": [1, 1000, 0, 1001, "1"],
    **dict.fromkeys(("wait", "retry_after"), DURATIONS),
    "lease": [one for one in DURATIONS if one not in ("0", "PT0S")],  # a text that is nothing is a matter of arithmetic
    "retention": [*DURATIONS, 10 * 365 * 86_400_000, 10 * 365 * 86_400_000 + 1],
    "ladder": [[], *([one] for one in DURATIONS), ["1s"] * 64, ["1s"] * 65, "1s"],
    "from": [*TIMES, *OFFSETS, "earliest", "latest"],
    "to": [*TIMES, *OFFSETS, "earliest", "latest", {"offset": 1}, {"time": TIME}, {"offset": 1, "time": TIME}, {}],
    "tags": [["a"], [], [""], ["a" * 256], ["a"] * 101, "a"],
    "after": ["", "x"],
    "ids": IDS,
    "begun": [
        *IDS,
        *([{"claim": "c", "ids": ids}] for ids in IDS),
        *([{"claim": "c", "ids": []}] * number for number in (100, 101)),
        [{}],
        [{"claim": "c"}],
        [{"claim": 1, "ids": []}],
        {},
    ],
    "reason": ["", "no ink", 1],
    **dict.fromkeys(("count", "dry_run", "ordered", "tells_begun"), FLAGS),
    "topic": [*["orders"] * 5, "", ".", "..", "a/b", "x" * 250],
    "kind": ["cluster", "broadcast", "other"],
    "queues": [1, 1024, 0, 1025, "1"],
    "sequencer": ["store", "other"],
    "jitter": [0, 0.5, 1, 1.5, -1, "0"],
    "on_exhausted": ["dead", "block", "other"],
    "concurrency": [1, 1_000_000, 0, 1_000_001],
    "max_pending": [0, 10**12, -1, 10**12 + 1],
    "max_rate": [1, 1_000_000, 0, 1_000_001],
    "release_rate": [1, 1_000_000, 0, 1_000_001],
    "url": ["https://hooks.invalid/in", 1],
    "secret": [SECRET, [SECRET], [SECRET] * 4, [], "x", 1, [SECRET] * 5, ["x"]],
    "timeout": ["1s", 1000, 100, 99, 300_000, 300_001, "x", ""],
    "max_in_flight": [1, 1000, 0, 1001, "1"],
    # Of schedules what every calendar allows, and what none does.
    "cron": ["* * * * *", "0 9 * * MON", 1],
    "timezone": ["Europe/Berlin", "UTC", 1],
    "every": ["1s", "PT1H", 60_000, "x", "", -1, 1.5, True],
    "starts_at": TIMES,
    "ends_at": ["2200-12-02T00:00:00Z", *TIMES[2:]],
    "misfire": ["once", "skip", {"catch_up": "1h"}, {"catch_up": "x"}, {"catch": "1h"}, "other", 1],
    "overlap": ["allow", "skip", "queue_one", "other"],
    "group": ["billing", "", "a/b", 1],
    "paused": FLAGS,
    "mode": ["replace", "keep", "debounce", "other"],
    "max_wait": [one for one in DURATIONS if one not in ("0", "PT0S")],
    "rate": [1, 100_000, 0, 100_001],
    "settle": [
        [],
        {},
        [{}],
        [{"claim": "c"}],
        [{"ack": "all"}],
        [{"claim": 1, "ack": "all"}],
        [{"claim": "c", "ack": "none"}],
        [{"claim": "c", "ack": "all", "begun": ["7"]}],
        *([{"claim": "c", "begun": ids}] for ids in IDS),
        *([{"claim": "c", "ack": ids}] for ids in ["all", *IDS]),
        *([{"claim": "c", "ack": ack, "fail": {}}] for ack in ("all", ["7"], None)),
        *([{"claim": "c", "fail": {"retry_after": one}}] for one in DURATIONS),
        *([{"claim": "c", "fail": fail}] for fail in FAILS),
        *([{"claim": "c", "ack": "all"}] * number for number in (1000, 1001)),
    ],
    "guard": ["Unpaid", "", 7],  # which there are is a matter of the settings
    "bdoy": [1],
}


@st.composite
def bodies(draw: st.DrawFn, operation: Operation) -> Any:
    """Of these fields, few at a time, so that many have nothing wrong with them."""
    struct: type[Body] = draw(st.sampled_from(operation.requests))
    fields = msgspec.structs.fields(struct)
    names = [field.encode_name for field in fields]
    chosen = {field.encode_name for field in fields if field.required and draw(st.integers(0, 9))}
    if "cron" in names:  # one of the two there must be: by chance alone none in a thousand is right
        chosen |= {draw(st.sampled_from(["cron", "every"]))}
    chosen |= set(draw(st.lists(st.sampled_from([*names, *names, "bdoy"]), max_size=3)))
    return {name: draw(st.one_of(*[st.sampled_from(VALUES[name])] * 4, st.none())) for name in sorted(chosen)}


@full
@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda operation: f"{operation.method} {operation.path}")
def test_what_the_document_allows_is_taken_and_nothing_else(house: House, operation: Operation) -> None:
    schema = schema_of(operation)
    find(bodies(operation), lambda body: fits(body, schema), settings=_LOOK)
    find(bodies(operation), lambda body: not fits(body, schema), settings=_LOOK)

    @settings(max_examples=examples(20, 100), deadline=None)
    @given(bodies(operation))
    def hold(body: Any) -> None:
        allowed = fits(body, schema)
        response = house.send(operation, body)
        said = f"{body} is {'allowed' if allowed else 'forbidden'}: {response.text}"
        assert is_as_the_document_says(response, body, allowed), said

    hold()


PUBLISH, RESCHEDULE = (next(o for o in WITH_BODY if o.path.endswith(end)) for end in ("{topic}/messages", "/{id}"))
REPLAY, SEEK = (next(o for o in WITH_BODY if o.path.endswith(end)) for end in ("/replay", "/seek"))


@pytest.mark.parametrize(
    ("operation", "body", "allowed"),
    [
        (PUBLISH, {"body": None}, True),
        (PUBLISH, {"body_base64": "AP8=", "content_type": "image/png"}, True),
        (PUBLISH, {"body": 1, "body_base64": None, "content_type": None}, True),
        (PUBLISH, {"body": 1, "delay": None, "deliver_at": TIME}, True),
        (PUBLISH, {}, False),
        (PUBLISH, {"body_base64": None}, False),
        (PUBLISH, {"body": 1, "body_base64": "AP8="}, False),
        (PUBLISH, {"body": 1, "content_type": "image/png"}, False),
        (PUBLISH, {"body": 1, "delay": 0, "deliver_at": TIME}, False),
        (PUBLISH, {"body": 1, "deliver_between": None, "deliver_at": TIME}, True),
        (PUBLISH, {"body": 1, "deliver_between": NIGHT}, True),
        (PUBLISH, {"body": 1, "deliver_between": NIGHT, "deliver_at": TIME}, False),
        (PUBLISH, {"body": 1, "deliver_between": NIGHT, "delay": 0}, False),
        (PUBLISH, {"body": 1, "deliver_between": NIGHT[:1]}, False),
        (PUBLISH, {"messages": [{"body": 1}, {"body": 1, "body_base64": "AP8="}]}, False),
        (PUBLISH, {"messages": [{"body": 1, "idempotency_key": "k"}]}, False),
        (PUBLISH, {"messages": [{"body": 1}], "body": 1}, False),
        (RESCHEDULE, {"delay": 0, "deliver_at": None}, True),
        (RESCHEDULE, {"delay": 0, "deliver_at": TIME}, False),
        (RESCHEDULE, {"delay": None}, False),
        (SEEK, {"to": {"offset": 1, "time": None, "queue": 0}}, True),
        (SEEK, {"to": {"offset": None, "time": None}}, False),
        (SEEK, {"to": {"offset": 1, "time": TIME}}, False),
        (REPLAY, {"from": 1, "to": 2, "queue": 0, "name": "n"}, True),
        (REPLAY, {"from": "earliest", "name": None}, True),
        (REPLAY, {"from": "earliest", "to": 2, "queue": 0, "name": "n"}, False),
        (REPLAY, {"from": 1, "queue": 0, "name": "n"}, False),
        (REPLAY, {"from": 1, "to": 2, "name": "n"}, False),
    ],
)
def test_fields_that_go_together(house: House, operation: Operation, body: Any, allowed: bool) -> None:
    assert fits(body, schema_of(operation)) == allowed
    response = house.send(operation, body)
    assert is_as_the_document_says(response, body, allowed), response.text
