"""Publishing. Each request carries an idempotency key, so one that is sent again after a lost answer counts once."""

from collections.abc import Callable, Iterable
from typing import Any

from .batches import Batch, cut
from .bodies import Dumps, written
from .errors import TarryError
from .identity import new_idempotency_key
from .paths import part
from .records import Draft, Receipt
from .transport import Transport

OnFailure = Callable[[str, Any, TarryError], object]


class Producer:
    """The publishing half of `Tarry`."""

    def __init__(self, transport: Transport, on_failure: OnFailure | None, json: Dumps | None) -> None:
        self._transport = transport
        self._on_failure = on_failure
        self._json = json

    def publish(self, topic: str, draft: Draft, idempotency_key: str | None) -> Receipt:
        """One message."""
        content = written(draft, self._json, idempotency_key=idempotency_key or new_idempotency_key())
        return Receipt.read(self._send(topic, content, draft.body))

    def publish_many(
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
            landed = self._publish_batch(topic, batch)
            receipts.extend(landed)
            if on_batch is not None:
                on_batch(landed)
        return receipts

    def _publish_batch(self, topic: str, batch: Batch) -> list[Receipt]:
        bodies = [draft.body for draft in batch.drafts]
        document = self._send(topic, batch.request(new_idempotency_key()), bodies)
        return [Receipt.read(record) for record in document["messages"]]

    def _send(self, topic: str, content: bytes, body: Any) -> dict[str, Any]:
        try:
            return self._transport.call("POST", f"/v1/topics/{part(topic)}/messages", content).document
        except TarryError as error:
            if self._on_failure is not None:
                self._on_failure(topic, body, error)
            raise
