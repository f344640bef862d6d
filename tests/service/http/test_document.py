"""What /openapi.json says of the query is what the server takes: neither more nor less."""

import re
from itertools import product

import httpx
import pytest

from support.recording_broker import RecordingBroker
from tarry.service.http.routes import OPERATIONS, Operation, Parameter
from tarry.store.records import Group
from tarry.wheel.ladder import Ladder

PARTS = {"topic": "orders", "group": "billing", "id": "7", "queue": "0", "client": "c1"}
NEEDED = {"topic": "orders", "key": "k"}
BOUNDED = [
    pytest.param(operation, parameter, id=f"{operation.method} {operation.path} {parameter.name}")
    for operation, parameter in ((o, p) for o in OPERATIONS for p in o.query)
    if parameter.numbers is not None or parameter.words
]


@pytest.mark.parametrize(("operation", "parameter"), BOUNDED)
async def test_a_parameter_takes_what_the_document_says(
    client: httpx.AsyncClient, broker: RecordingBroker, operation: Operation, parameter: Parameter
) -> None:
    topic = broker.add_topic("orders")
    broker.known_groups["orders", "billing"] = Group(1, topic, "billing", Ladder(), {})
    path = re.sub("{(.+?)}", lambda part: PARTS[part[1]], operation.path)
    needed = {name: value for name, value in NEEDED.items() if name in {known.name for known in operation.query}}
    low, high = parameter.numbers or (0, 0)
    taken = [str(low), str(high)] if parameter.numbers else parameter.words
    refused = [str(low - 1), str(high + 1), "x", "", "1.5"]
    for value, status in [*product(taken, [200]), *product(refused, [400])]:
        response = await client.get(path, params=needed | {parameter.name: value})
        assert response.status_code == status, (value, response.text)
