"""What waits and who lags, as `/metrics` tells it: past a thousand names the series are of those that have most."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.spied import SpiedServer
from tarry.service.upkeep import measures


async def told(server: SpiedServer, client: httpx.AsyncClient) -> dict[tuple[str, ...], float]:
    """By the topic and the group, or the topic and the state."""
    await server.node.measures.take()
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families((await client.get("/metrics")).text):
        for sample in family.samples:
            if family.name in ("tarry_group_lag_messages", "tarry_pending_messages"):
                label = sample.labels.get("group") or sample.labels["state"]
                found[sample.labels["topic"], label] = sample.value
    return found


@pytest.fixture(autouse=True)
def three_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of a thousand."""
    monkeypatch.setattr(measures, "MAX_NAMES", 3)


async def publish(client: httpx.AsyncClient, topic: str, many: int, delay: str | None = None) -> list[str]:
    made: list[str] = []
    for _ in range(many):
        body = {"body": 1} if delay is None else {"body": 1, "delay": delay}
        made.append((await client.post(f"/v1/topics/{topic}/messages", json=body)).json()["id"])
    return made


async def test_who_has_most_has_a_series_however_late_it_was_made(
    server: SpiedServer, client: httpx.AsyncClient
) -> None:
    for number in range(9):
        await client.put(f"/v1/topics/t{number}/groups/g", json={})
    for number, many in ((1, 1), (3, 2), (4, 3), (8, 5)):
        await publish(client, f"t{number}", many)
    later = await publish(client, "t7", 4, "1h")
    await publish(client, "t5", 1, "1h")
    found = await told(server, client)
    assert {labels: many for labels, many in found.items() if labels[1] == "g"} == {
        (f"t{number}", "g"): many for number, many in ((3, 2), (4, 3), (8, 5))
    }
    assert (found["t7", "scheduled"], found["t5", "scheduled"], len(found)) == (4, 1, 9)
    for id_ in later:
        assert (await client.delete(f"/v1/messages/{id_}")).status_code == 200
    await publish(client, "t1", 9)
    found = await told(server, client)
    assert {labels: many for labels, many in found.items() if labels[1] == "g"} == {
        (f"t{number}", "g"): many for number, many in ((1, 10), (4, 3), (8, 5))
    }
    assert (found["t5", "scheduled"], ("t7", "scheduled") in found) == (1, False)


async def test_few_have_all_a_series(server: SpiedServer, client: httpx.AsyncClient) -> None:
    for number in range(3):
        await client.put(f"/v1/topics/t{number}/groups/g", json={})
    assert await told(server, client) == {
        (f"t{number}", label): 0 for number in range(3) for label in ("g", "scheduled", "retrying")
    }
    await client.delete("/v1/topics/t1/groups/g")
    assert (await told(server, client)).keys() & {("t1", "g"), ("t0", "g")} == {("t0", "g")}


async def test_the_only_group_has_a_series_whichever_of_many_topics_it_is_of(
    server: SpiedServer, client: httpx.AsyncClient
) -> None:
    for number in range(6):
        await client.put(f"/v1/topics/t{number}", json={})
    await client.put("/v1/topics/t5/groups/g", json={})
    await publish(client, "t5", 3)
    assert (await told(server, client))["t5", "g"] == 3
