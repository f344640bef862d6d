"""OpenTelemetry's spans of requests, recorded by its own SDK."""

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind


async def test_a_request_is_a_part_of_the_trace_that_it_comes_with(
    client: httpx.AsyncClient, recorded: InMemorySpanExporter
) -> None:
    came = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    await client.post("/v1/topics/orders/messages", json={"body": 1}, headers=came)
    await client.get("/v1/messages/7")
    for quiet in ("/livez", "/readyz", "/metrics"):
        await client.get(quiet)
    published, looked = recorded.get_finished_spans()
    assert (published.name, published.kind) == ("POST /v1/topics/{topic}/messages", SpanKind.SERVER)
    assert published.context is not None
    assert f"{published.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert published.parent is not None
    assert f"{published.parent.span_id:016x}" == "b7ad6b7169203331"
    assert dict(published.attributes or {}) == {
        "http.request.method": "POST",
        "url.scheme": "http",
        "http.response.status_code": 201,
        "http.route": "/v1/topics/{topic}/messages",
        "messaging.system": "tarry",
        "messaging.destination.name": "orders",
    }
    assert (looked.parent, (looked.attributes or {})["http.response.status_code"]) == (None, 404)
    assert "7" not in str(looked.attributes)


async def test_without_a_place_for_spans_none_is_made(
    client: httpx.AsyncClient, recorded: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API alone is there on many machines, as what something else needs. It would make spans that go nowhere."""
    made: list[str] = []
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    monkeypatch.setattr(trace, "get_tracer", made.append)
    await client.get("/v1/messages/7")
    assert (made, recorded.get_finished_spans()) == ([], ())
