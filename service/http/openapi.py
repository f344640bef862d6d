"""The OpenAPI 3.1 document, made from the table of calls and the structs of requests and answers."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from re import findall

import msgspec

from ... import __version__
from . import schemas
from .access import SESSION, Of
from .hosts import FOR_PROBES
from .ndjson import MEDIA_TYPE as NDJSON
from .problems import KINDS, MEDIA_TYPE, ProblemBody
from .reading import Body
from .routes import OPERATIONS, Operation, Parameter
from .schemas import Json

PATH = "/openapi.json"
DOCS = "/docs"
STYLE = "/docs/style.css"
_BESIDE = (
    (PATH, "openapi", "This document", "application/json"),
    (DOCS, "docs", "The same as a page", "text/html"),
    (STYLE, "docs_style", "The stylesheet of that page", "text/css"),
)
"""Paths that are made from the table of calls, and so are not in it: path, name, summary, media type."""
_REF = "#/components/schemas/{name}"
_SCHEME: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "a key of `tarry keys create`; a server that never had one, and is its own machine's, needs none",
}
_COOKIE: Json = {
    "type": "apiKey",
    "in": "cookie",
    "name": SESSION,
    "description": "a session of POST /v1/session; a write brings the header X-Tarry-CSRF, too",
}
_PARTS: dict[str, Json] = {
    "topic": schemas.NAME,
    "group": schemas.NAME,
    "name": schemas.NAME,
    "report": schemas.NAME,
    "figure": schemas.NAME,
    "id": schemas.ID,
    "queue": {"type": "integer", "minimum": 0},
    "claim": {"type": "string"},
    "client": {"type": "string", "minLength": 1, "maxLength": 255},
    "key": {"type": "string"} | schemas.LABEL,
    "kind": {"type": "string", "enum": list(KINDS)},
}


@cache
def document() -> Json:
    types = list({type_: None for one in OPERATIONS for type_ in _types(one)})
    found, components = msgspec.json.schema_components([*types, ProblemBody], ref_template=_REF)
    for body in _bodies(Body):
        if body.__name__ in components:
            components[body.__name__] |= body.together
    by_type = dict(zip([*types, ProblemBody], found, strict=True))
    paths: defaultdict[str, Json] = defaultdict(dict)
    for operation in OPERATIONS:
        paths[operation.path][operation.method.lower()] = _operation(operation, by_type)
    for path, name, summary, media in _BESIDE:
        schema = {"type": "object" if media == "application/json" else "string"}
        itself = {"description": "OK", "content": {media: {"schema": schema}}}
        problems = _problems(("wrong-host", "internal"), by_type)
        paths[path]["get"] = {"operationId": name, "summary": summary, "responses": {"200": itself} | problems}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tarry",
            "version": __version__,
            "summary": "Delayed messages with a stream queue behind them",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": dict(paths),
        "components": {"schemas": components, "securitySchemes": {"key": _SCHEME, "session": _COOKIE}},
    }


def _bodies(of: type[Body]) -> Iterator[type[Body]]:
    for body in of.__subclasses__():
        yield body
        yield from _bodies(body)


def _types(operation: Operation) -> tuple[type, ...]:
    line, answers = operation.lines or (None, ())
    return (*operation.requests, *operation.answers, *([] if line is None else [line]), *answers)


def _operation(operation: Operation, by_type: dict[type, Json]) -> Json:
    described: Json = {
        "operationId": operation.name,
        "summary": operation.about,
        "parameters": [
            *(
                {"name": n, "in": "path", "required": True, "schema": _PARTS[n]}
                for n in findall("{(.+?)}", operation.path)
            ),
            *(_parameter(parameter, "query") for parameter in operation.query),
            *(_parameter(parameter, "header") for parameter in operation.headers),
        ],
        "responses": _responses(operation, by_type),
    }
    if operation.need.of is not Of.NOTHING:
        described["security"] = [{"key": []}, {"session": []}, {}]
    if operation.requests:
        schema = _one_of([by_type[type_] for type_ in operation.requests])
        content: Json = {"application/json": {"schema": schema}}
        if operation.lines is not None:
            line, answers = operation.lines
            content[NDJSON] = {"schema": _each_line([by_type[line]])}
            answered = {NDJSON: {"schema": _each_line([by_type[type_] for type_ in answers])}}
            described["responses"]["200"] = {"description": "An answer to each line, in order", "content": answered}
        described["requestBody"] = {"required": operation.body_required, "content": content}
    return described


def _parameter(parameter: Parameter, place: str) -> Json:
    schema: Json = {"type": "string"}
    if parameter.numbers is not None:
        low, high = parameter.numbers
        schema = {"type": "integer", "minimum": low, "maximum": high}
    elif parameter.words:
        schema["enum"] = list(parameter.words)
    elif parameter.form is not None:
        schema = parameter.form
    return {
        "name": parameter.name,
        "in": place,
        "required": parameter.required,
        "description": parameter.about,
        "schema": schema,
    }


def _responses(operation: Operation, by_type: dict[type, Json]) -> Json:
    schema = _one_of([by_type[type_] for type_ in operation.answers]) if operation.answers else {"type": "string"}
    media = operation.answer if isinstance(operation.answer, str) else "application/json"
    responses: Json = {
        str(status): {"description": "OK" if status == 200 else "Created", "content": {media: {"schema": schema}}}
        for status in operation.statuses
    }
    ours = () if operation.path in FOR_PROBES else ("wrong-host",)
    return responses | _problems((*operation.kinds, *ours, "internal"), by_type)


def _problems(kinds: Sequence[str], by_type: dict[type, Json]) -> Json:
    problem = {MEDIA_TYPE: {"schema": by_type[ProblemBody]}}
    responses: Json = {}
    titles: defaultdict[int, list[str]] = defaultdict(list)
    for kind in dict.fromkeys(kinds):
        titles[KINDS[kind][0]].append(f"{kind}: {KINDS[kind][1]}")
    for status in sorted(titles):
        responses[str(status)] = {"description": "; ".join(titles[status]), "content": problem}
        if status == 503:
            header = {"description": "seconds", "schema": {"type": "integer"}}
            responses[str(status)]["headers"] = {"Retry-After": header}
    return responses


def _each_line(schemas: Sequence[Json]) -> Json:
    """The schema of each line of a body: OpenAPI 3.1 cannot describe a sequence of them."""
    return {"description": "Each line is one of these", "anyOf": list(schemas)}


def _one_of(schemas: Sequence[Json]) -> Json:
    return schemas[0] if len(schemas) == 1 else {"oneOf": list(schemas)}
