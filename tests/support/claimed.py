"""Messages and claims as a server writes them, and as the client has them."""

from datetime import UTC, datetime
from typing import Any

from tarry.client.records import Claim, Message
from tarry.client.stock import Terms

TIME = "2026-01-01T00:00:00.000Z"
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
TERMS = Terms(topic="t", group="g", client="c", size=10, lease=60.0, wait=2.0, ahead=5)


def record(number: int, body: Any = None, **rest: Any) -> dict[str, Any]:
    """A message with its number as id and offset, in an answer."""
    place = {"id": str(number), "topic": "t", "queue": 0, "offset": number, "attempt": 1}
    return place | {"body": body, "published_at": TIME, "deliver_at": TIME} | rest


def a_message(id_: str, **rest: Any) -> Message:
    place: dict[str, Any] = {"topic": "t", "queue": 0, "offset": int(id_), "body": None}
    return Message(id=id_, published_at=WHEN, deliver_at=WHEN, **(place | rest))


def a_claim(name: str, *messages: Message, topic: str = "t", size: int = 100, **rest: Any) -> Claim:
    return Claim(name, topic, "g", WHEN, messages, size, **rest)
