"""The trace of a message, from whoever publishes it over HTTP to whoever handles it: a real server, a real endpoint."""

from base64 import b64encode
from collections.abc import Iterator

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from support.receiver import Receiver, receiver
from support.waiting import wait_until
from tarry.client import IdempotencyConflict, Receipt, Tarry, Timer
from tarry.testing import EmbeddedServer

SECRET = "whsec_" + b64encode(b"only the server and I know it").decode()
CAME = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "shop=7"}


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(push_allow=["127.0.0.1/32"]) as server:
        yield server


@pytest.fixture
def tarry(server: EmbeddedServer) -> Iterator[Tarry]:
    with Tarry(server.url) as tarry:
        yield tarry


def carried(tarry: Tarry, topic: str) -> dict[str, str]:
    """By the one message that comes of a topic."""
    claim = tarry.claim(topic, "g", wait="10s")
    assert claim is not None
    (message,) = claim.messages
    return dict(message.headers)


def sent(recorded: InMemorySpanExporter) -> list[str]:
    """Of each span of a publish, what stands in `traceparent` for it."""
    spans = [span.context for span in recorded.get_finished_spans() if span.name.startswith("send")]
    return [f"00-{one.trace_id:032x}-{one.span_id:016x}-{one.trace_flags:02x}" for one in spans if one is not None]


def test_a_key_of_ones_own_is_the_same_request_from_another_span(tarry: Tarry, recorded: InMemorySpanExporter) -> None:
    def send() -> tuple[Receipt, Timer]:
        with trace.get_tracer("shop").start_as_current_span("order"):
            return (
                tarry.publish("keyed", {"order": 7}, headers={"a": "b"}, idempotency_key="order-7"),
                tarry.set_timer("keyed-timers", "order-7", 7, delay="1h", idempotency_key="order-7"),
            )

    assert [one.replayed for one in send()] == [False, False]
    receipt, timer = send()
    assert (receipt.replayed, timer.replayed) == (True, True)
    with pytest.raises(IdempotencyConflict):
        tarry.publish("keyed", {"order": 8}, headers={"a": "b"}, idempotency_key="order-7")
    first, of_timer, *_ = sent(recorded)
    assert carried(tarry, "keyed") == {"a": "b", "traceparent": first}
    assert tarry.message(timer.id)["headers"] == {"traceparent": of_timer}


def test_a_timer_and_a_schedule_that_is_run(tarry: Tarry, recorded: InMemorySpanExporter) -> None:
    timer = tarry.set_timer("timers", "order-8", 8, delay="1h")
    tarry.put_schedule("daily", topic="daily", body=1, cron="0 9 * * *", headers={"a": "b"})
    again = tarry.put_schedule("daily", topic="daily", body=1, cron="0 9 * * *", headers={"a": "b"})
    id_ = tarry.run_schedule("daily")
    of_timer, of_run = sent(recorded)
    assert tarry.message(timer.id)["headers"] == {"traceparent": of_timer}
    headers = tarry.message(id_)["headers"]
    assert (headers["a"], headers["tarry-schedule"], headers["traceparent"]) == ("b", "daily", of_run)
    assert tarry.schedule("daily").revision == again.revision
    assert "traceparent" not in again.spec["headers"]


def publish(server: EmbeddedServer, topic: str, kind: str, content: str, headers: dict[str, str]) -> None:
    answer = httpx.post(
        f"{server.url}/v1/topics/{topic}/messages", content=content, headers={"content-type": kind, **headers}
    )
    assert answer.is_success, answer.text


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("application/json", '{"body": 1}'),
        ("application/json", '{"messages": [{"body": 1}]}'),
        ("application/x-ndjson", '{"body": 1}\n'),
    ],
    ids=["one", "batch", "lines"],
)
def test_any_program_that_traces_its_requests(
    server: EmbeddedServer, tarry: Tarry, kind: str, content: str, request: pytest.FixtureRequest
) -> None:
    """Its HTTP client says where it is, as instrumentation has it do; of Tarry it knows nothing."""
    topic = f"any-{request.node.callspec.id}"
    publish(server, topic, kind, content, CAME)
    assert carried(tarry, topic) == CAME


@pytest.mark.parametrize(
    ("own", "came"),
    [
        ('{"traceparent": "mine"}', CAME),
        ('{"a": "b"}', {"traceparent": "00-00000000000000000000000000000000-b7ad6b7169203331-01"}),
        ('{"a": "b"}', {"traceparent": "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}),
        ('{"a": "b"}', {"traceparent": "7", "tracestate": "a=b"}),
        ('{"a": "b"}', {"tracestate": "a=b"}),
        (f'{{"a": "{"b" * (16384 - 40)}"}}', CAME),
    ],
    ids=["a trace of its own", "no trace", "no version", "nonsense", "a state alone", "no room"],
)
def test_what_a_message_says_itself_is_left(
    server: EmbeddedServer, tarry: Tarry, own: str, came: dict[str, str], request: pytest.FixtureRequest
) -> None:
    topic = request.node.callspec.id.replace(" ", "-")
    publish(server, topic, "application/json", f'{{"body": 1, "headers": {own}}}', came)
    assert httpx.Response(200, text=own).json() == carried(tarry, topic)


def test_an_endpoint_goes_on_with_the_trace(
    server: EmbeddedServer, tarry: Tarry, recorded: InMemorySpanExporter, endpoint: Receiver
) -> None:
    url = f"{server.url}/v1/topics/posted/groups/shop/push"
    assert httpx.put(url, json={"url": f"{endpoint.url}/in", "secret": SECRET}).is_success
    state = TraceState([("shop", "7")])
    with trace.get_tracer("shop").start_as_current_span("order") as order:
        context = order.get_span_context()
        parent = trace.SpanContext(context.trace_id, context.span_id, False, context.trace_flags, state)
        with trace.use_span(trace.NonRecordingSpan(parent)):
            tarry.publish("posted", 1)
    tarry.publish("posted", 2, headers={"traceparent": "mine"})
    wait_until(lambda: len(endpoint.received) == 2)
    ours, theirs = sorted(endpoint.received, key=lambda one: one.body)
    # As whatever instruments the endpoint does.
    found = trace.get_current_span(TraceContextTextMapPropagator().extract(ours.headers)).get_span_context()
    assert found.trace_id == context.trace_id
    assert ours.headers["traceparent"] == ours.headers["tarry-header-traceparent"] == sent(recorded)[0]
    assert ours.headers["tracestate"] == "shop=7"
    assert (theirs.headers["tarry-header-traceparent"], "traceparent" in theirs.headers) == ("mine", False)


@pytest.fixture
def endpoint() -> Iterator[Receiver]:
    with receiver() as endpoint:
        yield endpoint
