"""Makes an OpenTelemetry span of each request, if opentelemetry-api is installed and a tracer provider is set up; else
it costs nothing.

This is the only file of the service that knows OpenTelemetry. Attributes follow its conventions for HTTP servers. A
request with a `traceparent` header is part of that trace.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from .asgi import Request

if TYPE_CHECKING:
    from opentelemetry.trace import Span

try:
    import_module("opentelemetry.trace.propagation.tracecontext")
except ModuleNotFoundError:  # the extra `otel` is not installed
    on = False
else:
    on = True

if TYPE_CHECKING or on:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    _carrier = TraceContextTextMapPropagator()

_QUIET = {"/livez", "/readyz", "/metrics"}
"""Paths that probes and scrapers request all the time; nobody wants traces of them."""


class Answered:
    """Receives the outcome of a request; this one ignores it, as nobody traces."""

    def __enter__(self) -> "Answered":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def answered(self, request: Request, status: int) -> None:
        """Notes that the request was answered with this status."""


class _Span(Answered):
    def __init__(self, span: "Span") -> None:
        self._span = span

    def answered(self, request: Request, status: int) -> None:
        self._span.set_attribute("http.response.status_code", status)
        if request.route:
            self._span.update_name(f"{request.method} {request.route}")
            self._span.set_attribute("http.route", request.route)
        if (topic := request.parts.get("topic")) is not None:
            self._span.set_attribute("messaging.system", "tarry")
            self._span.set_attribute("messaging.destination.name", topic)
        if status >= 500:
            self._span.set_attribute("error.type", str(status))
            self._span.set_status(trace.StatusCode.ERROR)


_NOBODY = Answered()


def serving(request: Request) -> AbstractContextManager[Answered]:
    return _serving(request) if on and request.path not in _QUIET and _are_wanted() else _NOBODY


def _are_wanted() -> bool:
    # Looked up each time, since the provider may be set up late.
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@contextmanager
def _serving(request: Request) -> Generator[Answered, None, None]:
    came = {name: value for name in ("traceparent", "tracestate") if (value := request.header(name.encode()))}
    parent = _carrier.extract(came, context.Context())
    attributes = {"http.request.method": request.method, "url.scheme": str(request.scope.get("scheme", "http"))}
    kind = trace.SpanKind.SERVER
    tracer = trace.get_tracer("tarry.server")
    with tracer.start_as_current_span(request.method, context=parent, kind=kind, attributes=attributes) as span:
        yield _Span(span)
