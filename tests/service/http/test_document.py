"""What /openapi.json says of the query is what the server takes: neither more nor less."""

import re
from itertools import product

import httpx
import pytest

from support.in_one import in_one
from support.json_schema import fits
from support.spied import SpiedServer
from tarry.service.http.routes import OPERATIONS, Operation, Parameter

PARTS = {"topic": "orders", "group": "billing", "id": "7", "queue": "0", "client": "c1", "name": "daily"}
NEEDED = {"topic": "orders", "key": "k"}
SCHEDULE = {"topic": "orders", "every": "1m", "body": 1}
PARAMETERS = [(operation, parameter) for operation in OPERATIONS for parameter in operation.query]
BOUNDED = [(one, parameter) for one, parameter in PARAMETERS if parameter.numbers is not None or parameter.words]
OF_A_FORM = [(one, parameter) for one, parameter in PARAMETERS if parameter.form is not None]
TEXTS = ["2026-12-01T00:00:00Z", "2026-13-01T00:00:00Z", "now", "", "1s", "PT1S", "P", "orders", "..", "k" * 256]


async def ask(client: httpx.AsyncClient, operation: Operation, parameter: str, value: str) -> httpx.Response:
    """With what the call needs beside it."""
    path = re.sub("{(.+?)}", lambda part: PARTS[part[1]], operation.path)
    needed = {name: value for name, value in NEEDED.items() if name in {known.name for known in operation.query}}
    body = SCHEDULE if operation.name == "put_schedule" else None
    return await client.request(operation.method, path, params=needed | {parameter: value}, json=body)


@pytest.mark.slow
@in_one(("operation", "parameter"), BOUNDED)
async def test_a_parameter_takes_what_the_document_says(
    client: httpx.AsyncClient, server: SpiedServer, operation: Operation, parameter: Parameter
) -> None:
    low, high = parameter.numbers or (0, 0)
    taken = [str(low), str(high)] if parameter.numbers else parameter.words
    refused = [str(low - 1), str(high + 1), "x", "", "1.5"]
    for value, status in [*product(taken, [200]), *product(refused, [400])]:
        await server.group(await server.topic())  # the one before may have removed it
        if "{name}" in operation.path:
            await client.put("/v1/schedules/daily", json=SCHEDULE)
        response = await ask(client, operation, parameter.name, value)
        assert response.status_code == status, (value, response.text)


@pytest.mark.slow
@in_one(("operation", "parameter"), OF_A_FORM)
async def test_a_parameter_has_the_form_that_the_document_says(
    client: httpx.AsyncClient, server: SpiedServer, operation: Operation, parameter: Parameter
) -> None:
    assert parameter.form is not None
    topic = await server.topic()
    await server.group(topic)
    await server.publish(topic, b"1")  # a pull has nothing to wait for
    for value in TEXTS:
        response = await ask(client, operation, parameter.name, value)
        allowed = fits(value, parameter.form)
        assert (response.status_code != 400) == allowed, (value, response.text)
    assert {fits(value, parameter.form) for value in TEXTS} == {True, False}


async def test_no_call_passes_over_a_parameter_that_it_does_not_know(client: httpx.AsyncClient) -> None:
    """Probes and metrics are asked by programs that may add some of their own."""
    for operation in OPERATIONS:
        if operation.path.startswith("/v1/"):
            path = operation.path.replace("{", "").replace("}", "")
            response = await client.request(operation.method, path, params={"no-such": "3"})
            assert response.status_code == 400, (operation, response.text)
            assert response.json()["errors"][0]["parameter"] == "no-such"
    response = await client.get("/v1/nodes", params={"max": "3"})
    assert response.json()["detail"] == "?max: unknown parameter; there are none"
