"""Readers that follow a queue by their own offset, from its beginning, and never go back."""

from typing import Any

from attrs import define

from .caller import Caller
from .crew import Crew
from .message import digest_of, name_of

PAGE = 1000


@define
class Reader:
    who: str
    crew: Crew
    caller: Caller
    topic: str
    queue: int

    async def run(self) -> None:
        """Runs until consuming ends."""
        offset = 0
        while self.crew.consuming:
            answer = await self.caller.ask("GET", page_of(self.topic, self.queue, offset, wait=500))
            if answer.phase == "ok":
                offset = answer.data["next_offset"]
                for message in answer.data["messages"]:
                    self.crew.journal.write("read", "ok", **found(message), client=self.who)


def page_of(topic: str, queue: int, offset: int, *, wait: int = 0) -> str:
    return f"/v1/topics/{topic}/queues/{queue}/messages?offset={offset}&max={PAGE}&wait={wait}"


def found(message: dict[str, Any]) -> dict[str, Any]:
    """The fields of a history line about a message in a queue."""
    return {
        "name": name_of(message),
        "id": message["id"],
        "topic": message["topic"],
        "digest": digest_of(message),
        "queue": message["queue"],
        "offset": message["offset"],
    }
