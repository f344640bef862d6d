# Made from producer.py by tests/support/async_client.py. Change that file, and make this one again.
"""Publishing. Each request carries an idempotency key, so one that is sent again after a lost answer counts once.

For asyncio and trio.
"""

from collections.abc import Callable, Iterable
from typing import Any

from .async_transport import AsyncTransport
from .batches import Batch, cut
from .bodies import Dumps, written
from .errors import TarryError
from .identity import new_idempotency_key
from .paths import part
from .producer import OnFailure
from .records import Draft, Receipt


class AsyncProducer:
    """The publishing half of `AsyncTarry`."""

    def __init__(self, transport: AsyncTransport, on_failure: OnFailure | None, json: Dumps | None) -> None:
        self._transport = transport
        self._on_failure = on_failure
        self._json = json

    async def publish(self, topic: str, draft: Draft, idempotency_key: str | None) -> Receipt:
        """One message."""
        content = written(draft, self._json, idempotency_key=idempotency_key or new_idempotency_key())
        return Receipt.read(await self._send(topic, content, draft.body))

    async def publish_many(
        self,
        topic: str,
        messages: Iterable[Draft | dict[str, Any]],
        *,
        on_batch: Callable[[list[Receipt]], object] | None,
        max_messages: int,
        max_bytes: int,
    ) -> list[Receipt]:
        """Batch by batch, in order; `on_batch` has each one's receipts as soon as they are there."""
        receipts: list[Receipt] = []
        for batch in cut(messages, max_messages, max_bytes, self._json):
            landed = await self._publish_batch(topic, batch)
            receipts.extend(landed)
            if on_batch is not None:
                on_batch(landed)
        return receipts

    async def _publish_batch(self, topic: str, batch: Batch) -> list[Receipt]:
        bodies = [draft.body for draft in batch.drafts]
        document = await self._send(topic, batch.request(new_idempotency_key()), bodies)
        return [Receipt.read(record) for record in document["messages"]]

    async def _send(self, topic: str, content: bytes, body: Any) -> dict[str, Any]:
        try:
            return (await self._transport.call("POST", f"/v1/topics/{part(topic)}/messages", content)).document
        except TarryError as error:
            if self._on_failure is not None:
                self._on_failure(topic, body, error)
            raise
