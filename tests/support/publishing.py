"""Publishes messages without a pause while a test does something to the database, and checks which ones are there."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from attrs import define, field

from support.waiting import wait_until
from tarry.client import Tarry


@define
class Publishing:
    """Publishes one message after another at each of the servers, none of them twice."""

    urls: list[str]
    answered: set[str] = field(factory=set[str])
    """Messages whose publish was answered."""
    _done: threading.Event = field(factory=threading.Event)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._publish, args=(name, url)) for name, url in enumerate(self.urls * 3)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._done.set()
            for thread in threads:
                thread.join()

    def more(self, many: int) -> None:
        """Waits until `many` more publishes were answered."""
        wanted = len(self.answered) + many
        wait_until(lambda: len(self.answered) >= wanted, 60)

    def _publish(self, name: int, url: str) -> None:
        made = 0
        with httpx.Client(base_url=url, timeout=60) as client:
            while not self._done.is_set():
                made += 1
                body = f"{name}-{made}"
                answered = client.post("/v1/topics/orders/messages", json={"body": body}).status_code == 201
                if answered:
                    self.answered.add(body)
                self._done.wait(0.005 if answered else 0.05)


def there(tarry: Tarry) -> set[object]:
    """The bodies that a new group gets, from the beginning of the stream."""
    bodies = set[object]()
    while (claim := tarry.claim("orders", "all", max=500, wait="2s", start="earliest")) is not None:
        bodies |= {message.body for message in claim.messages}
        tarry.ack(claim)
    return bodies
