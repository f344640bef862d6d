"""Calls on a node under test for which the HTTP handlers need more than one call."""

from tarry.service.node import Node
from tarry.store.groups.claim_ids import format_claim
from tarry.store.records import Claim, ClaimRequest, Group, ReadAnswer, ReadRequest


async def claim(
    node: Node, group: Group, client: str, size: int, wait: int, lease: int, *, tags: frozenset[str] | None = None
) -> Claim | None:
    """Claims for a client, which counts as alive while it waits."""
    async with node.liveness.polling(client):
        return await node.groups.claim(group, ClaimRequest(client, size, lease, tags), wait)


async def read_on(node: Node, request: ReadRequest, wait: int) -> ReadAnswer:
    """Reads messages for a client of a broadcast topic, which counts as alive while it waits."""
    async with node.liveness.polling(request.client):
        return await node.readers.read_on(request, wait)


def name_of(claim: Claim) -> str:
    """The claim's name in the HTTP API."""
    return format_claim(*(one.key for one in claim.ranges))
