"""OpenTelemetry's spans, recorded by its own SDK: what the client does, and how a message carries its trace."""

import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from support.scripted_server import Answer, Request, ScriptedServer, problem
from support.small_broker import SmallBroker
from tarry.client import Claim, LeaseLost, Tarry, spans

AT = "2030-01-01T00:00:00.000Z"
RECEIPT = {"id": "5", "topic": "t", "state": "published", "deliver_at": AT, "queue": 0, "offset": 0}


def of(recorded: InMemorySpanExporter, name: str) -> ReadableSpan:
    (span,) = (span for span in recorded.get_finished_spans() if span.name == name)
    return span


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return {name.removeprefix("messaging."): value for name, value in (span.attributes or {}).items()}


def parent_of(headers: Mapping[str, str]) -> str:
    """The id of the span that is carried."""
    return headers["traceparent"].split("-")[2]


def own_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def accept(request: Request) -> Answer:
    if "x-ndjson" in request.headers.get("content-type", ""):
        raise AssertionError("one caller shares with nobody")
    many = request.json.get("messages")
    return Answer(201, RECEIPT if many is None else {"messages": [RECEIPT] * len(many)})


def test_a_publish_goes_with_its_trace(script: ScriptedServer, tarry: Tarry, recorded: InMemorySpanExporter) -> None:
    script.respond = accept
    tarry.publish("t", 1, headers={"a": "b"})
    span = of(recorded, "send t")
    sent = script.requests[0].json["headers"]
    assert (sent["a"], parent_of(sent)) == ("b", own_id(span))
    assert span.kind is SpanKind.PRODUCER
    assert attributes(span) == {
        "system": "tarry",
        "operation.name": "send",
        "operation.type": "send",
        "destination.name": "t",
        "message.id": "5",
    }


def test_what_the_user_says_is_left(script: ScriptedServer, tarry: Tarry, recorded: InMemorySpanExporter) -> None:
    """A trace of the user's own; and under a key of the user's own a second publish must be the same request."""
    script.respond = accept
    tarry.publish("t", 1, headers={"traceparent": "own"})
    tarry.publish("t", 1, idempotency_key="once")
    own, again = script.requests
    assert own.json["headers"] == {"traceparent": "own"}
    assert "headers" not in again.json
    _, span = recorded.get_finished_spans()
    assert parent_of({name.lower(): value for name, value in again.headers.items()}) == own_id(span)


def test_what_has_its_trace_beside_it_shares_no_request(
    script: ScriptedServer, tarry: Tarry, recorded: InMemorySpanExporter
) -> None:
    """A request of several callers has no place for the traces of each."""
    under_way, go = threading.Barrier(3), threading.Event()

    def respond(request: Request) -> Answer:
        if request.json["body"] == "first":
            return accept(request)
        under_way.wait(20)  # all are under way at the same time, each in a request of its own
        return accept(request)

    def publish(number: int) -> None:
        go.wait(20)
        tarry.publish("t", number, idempotency_key=f"order-{number}")

    script.respond = respond
    tarry.publish("t", "first")
    threads = [threading.Thread(target=publish, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert len(recorded.get_finished_spans()) == 4


def test_what_is_made_later_is_a_part_of_what_was_under_way(recorded: InMemorySpanExporter) -> None:
    tracer = trace.get_tracer("app")
    with tracer.start_as_current_span("order") as order:
        call = spans.later(lambda: trace.get_current_span().get_span_context().span_id)
    with tracer.start_as_current_span("another") as another:
        assert call() == order.get_span_context().span_id
        assert trace.get_current_span() is another


def test_many_have_one_span(script: ScriptedServer, tarry: Tarry, recorded: InMemorySpanExporter) -> None:
    script.respond = accept
    tarry.publish_many("t", [{"body": 1}, {"body": 2, "headers": {"a": "b"}}])
    span = of(recorded, "send t")
    messages = script.requests[0].json["messages"]
    assert [parent_of(message["headers"]) for message in messages] == [own_id(span)] * 2
    assert messages[1]["headers"]["a"] == "b"
    assert attributes(span)["batch.message_count"] == 2


def test_a_publish_that_fails(script: ScriptedServer, tarry: Tarry, recorded: InMemorySpanExporter) -> None:
    script.say(problem(409, detail="no"))
    with pytest.raises(Exception, match="no"):
        tarry.publish("t", 1)
    span = of(recorded, "send t")
    assert (span.status.status_code, attributes(span)["error.type"]) == (StatusCode.ERROR, "Conflict")


def test_a_request_tells_the_server_of_what_is_under_way(
    script: ScriptedServer, tarry: Tarry, recorded: InMemorySpanExporter
) -> None:
    script.say(Answer(200, {"acked": 1}))
    with trace.get_tracer("app").start_as_current_span("order") as order:
        tarry.ack("c1", ["5"])
    span = of(recorded, "ack")
    headers = {name.lower(): value for name, value in script.requests[0].headers.items()}
    assert parent_of(headers) == own_id(span)
    assert span.parent is not None
    assert span.parent.span_id == order.get_span_context().span_id
    assert attributes(span)["batch.message_count"] == 1


def test_claims_and_settlements(script: ScriptedServer, tarry: Tarry, recorded: InMemorySpanExporter) -> None:
    carried = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    message = {"id": "5", "topic": "t", "queue": 0, "offset": 0, "attempt": 1, "body": 1, "published_at": AT}
    found = {
        "claim": "c1",
        "lease_until": AT,
        "messages": [message | {"deliver_at": AT, "headers": {"traceparent": carried}}],
    }
    script.say(Answer(200, {"claim": None, "messages": []}), Answer(200, found), problem(409, result="lease_lost"))
    assert tarry.claim("t", "g") is None
    claim = tarry.claim("t", "g")
    assert isinstance(claim, Claim)
    with pytest.raises(LeaseLost):
        tarry.fail(claim)
    receive = of(recorded, "receive t")  # and none of the claim that brought nothing
    assert (receive.kind, attributes(receive)["consumer.group.name"]) == (SpanKind.CLIENT, "g")
    assert attributes(receive)["batch.message_count"] == 1
    (link,) = receive.links
    assert f"{link.context.span_id:016x}" == "b7ad6b7169203331"
    fail = of(recorded, "fail t")
    assert (attributes(fail)["operation.type"], attributes(fail)["error.type"]) == ("settle", "LeaseLost")


def test_a_handler_goes_on_with_the_trace_of_its_message(
    script: ScriptedServer, recorded: InMemorySpanExporter
) -> None:
    broker = SmallBroker()
    carried = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    def respond(request: Request) -> Answer:
        answer = broker.respond(request)
        for message in answer.document.get("messages", []):
            if message["body"] == 1:
                message["headers"] = {"traceparent": carried}
        return answer

    script.respond = respond
    broker.backlog.extend([1, 2])
    inside: list[int] = []
    with Tarry(script.url) as tarry:
        for message in tarry.consume("t", "g", limit=2, idle_timeout=20):
            with message:
                inside.append(trace.get_current_span().get_span_context().span_id)
                if message.body == 2:
                    raise OSError("the printer is on fire")
    assert not trace.get_current_span().get_span_context().is_valid
    first, second = (span for span in recorded.get_finished_spans() if span.name == "process t")
    assert [span.context.span_id for span in (first, second) if span.context is not None] == inside
    assert first.context is not None
    assert f"{first.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert first.parent is not None
    assert f"{first.parent.span_id:016x}" == "b7ad6b7169203331"
    assert (first.kind, attributes(first)["consumer.group.name"]) == (SpanKind.CONSUMER, "g")
    assert (second.parent, attributes(second)["error.type"]) == (None, "OSError")
    settled = {
        span.name: attributes(span) for span in recorded.get_finished_spans() if span.name in ("ack t", "fail t")
    }
    assert {name: one["batch.message_count"] for name, one in settled.items()} == {"ack t": 1, "fail t": 1}


@pytest.mark.slow
def test_without_opentelemetry_nothing_is_imported_and_nothing_carried(script: ScriptedServer) -> None:
    script.respond = accept
    program = """
import sys
sys.modules["opentelemetry"] = None  # as where it is not installed
from tarry.client import Tarry, spans
with Tarry(sys.argv[1]) as tarry:
    tarry.publish("t", 1)
    tarry.publish_many("t", [{"body": 1}])
print(spans.on, [name for name in sys.modules if name.startswith("opentelemetry.")])
"""
    command = [sys.executable, "-P", "-c", program, script.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "False []"), done.stderr
    assert [set(request.json) for request in script.requests] == [
        {"body", "idempotency_key"},
        {"messages", "idempotency_key"},
    ]
    assert not any("traceparent" in {name.lower() for name in request.headers} for request in script.requests)
