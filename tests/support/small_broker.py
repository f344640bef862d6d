"""A minimal broker of one topic and one group, for tests of the client's loop. The test controls its clock."""

import threading
from collections import deque
from typing import Any

from attrs import define, field

from support.claimed import TIME, record
from support.scripted_server import Answer, Request, problem


@define
class SmallBroker:
    """Hands out `backlog` in order; failed messages come again at once if `returning` is set."""

    backlog: deque[Any] = field(factory=deque[Any])
    returning: bool = False
    calls: list[tuple[str, Any]] = field(factory=list[tuple[str, Any]])
    """(verb, request) of every call but empty claims."""
    lost: bool = False
    """Whether every lease is over."""
    topic: str = "t"
    called: threading.Condition = field(factory=threading.Condition)
    _claims: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    _last: int = 0

    def respond(self, request: Request) -> Answer:
        parts = request.path.split("/")
        with self.called:
            if parts[-1] == "claim":
                answer = self._claim(request)
            elif parts[-1] == "settle":
                answer = self._settle_each(request)
            else:
                answer = self._settle(parts[-1], parts[-2], request.json)
            self.called.notify_all()
        return answer

    def _claim(self, request: Request) -> Answer:
        if not self.backlog:
            # In place of a long poll, so that the client's loop does not spin.
            self.called.wait(0.01)
        messages: dict[str, Any] = {}
        while self.backlog and len(messages) < request.json["max"]:
            self._last += 1
            messages[str(self._last)] = self.backlog.popleft()
        if not messages:
            return Answer(200, {"claim": None, "messages": []})
        self.calls.append(("claim", request.json))
        claim = f"c{self._last}" if self.topic == "t" else f"{self.topic}.{self._last}"
        self._claims[claim] = dict(messages)
        records = [record(int(id_), body, topic=self.topic) for id_, body in messages.items()]
        return Answer(200, {"claim": claim, "lease_until": TIME, "messages": records})

    def _settle_each(self, request: Request) -> Answer:
        """Records each settlement as if it had come in its own call."""
        settled: list[dict[str, Any]] = []
        for one in request.json["settle"]:
            if "ack" in one:
                answer = self._settle("ack", one["claim"], {} if one["ack"] == "all" else {"ids": one["ack"]})
            else:
                answer = self._settle("fail", one["claim"], one["fail"])
            settled.append(answer.document if answer.status == 200 else {"error": answer.document})
        return Answer(200, {"settled": settled}, {"Content-Type": "application/json"})

    def _settle(self, verb: str, claim: str, request: dict[str, Any]) -> Answer:
        self.calls.append((verb, request))
        if self.lost:
            return problem(409, result="lease_lost", detail="the lease is over")
        if verb == "extend":
            return Answer(200, {"lease_until": TIME})
        held = self._claims[claim]
        bodies = [held[id_] for id_ in request.get("ids", held)]
        if verb == "ack":
            return Answer(200, {"acked": len(bodies)})
        if self.returning:
            self.backlog.extend(bodies)
        return Answer(200, {"retried": len(bodies), "dead": 0})

    def all(self, verb: str) -> list[Any]:
        """The requests with this verb so far."""
        with self.called:
            return [request for name, request in self.calls if name == verb]

    def settled(self, verb: str) -> list[int]:
        """The ids in such calls so far, sorted."""
        return sorted(int(id_) for request in self.all(verb) for id_ in request["ids"])

    def wait_for(self, verb: str, count: int = 1) -> None:
        """Waits until `count` such calls were made; ten seconds at most."""
        with self.called:
            assert self.called.wait_for(lambda: sum(name == verb for name, _ in self.calls) >= count, 10), self.calls


class SmallBrokers:
    """A small broker for each of the topics."""

    def __init__(self, *topics: str) -> None:
        self.of = {topic: SmallBroker(topic=topic) for topic in topics}

    def respond(self, request: Request) -> Answer:
        parts = request.path.split("/")
        if parts[-1] == "claim":
            return self.of[parts[3]].respond(request)
        claim = request.json["settle"][0]["claim"] if parts[-1] == "settle" else parts[-2]
        return self.of[claim.partition(".")[0]].respond(request)
