"""The messages that a consumption holds, and the rules for what to do next, for threads and tasks. Pure.

`consumption` uses it from threads and `async_consumption` from tasks; both supply the time and send the calls.
"""

import logging
import math
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Any
from weakref import ref

from attrs import frozen

from . import claims
from .absence import Absence
from .calls import Call
from .claim_size import ClaimSize
from .durations import Duration, milliseconds
from .errors import LeaseLost, NotFound, TarryError, Unavailable
from .holds import Hold, Holds, Settlement
from .identity import Identity
from .records import Claim, Message

_log = logging.getLogger("tarry.client")

PATIENCE = 10.0
"""Seconds that closing gives a server that is away; then held messages are left to their leases."""

SIGN = 5.0
"""Seconds from one sign of life to the next, until the server has said how long one counts."""
SIGNS = 3
"""Signs sent in the time that one counts, so that one or two may be lost."""
_TELLS, _WAIT = "/tells_begun", "/wait"
"""Fields of a claim that may be refused: the first by an older server, the second by one with shorter long polls."""


@frozen(kw_only=True)
class Terms:
    """What a loop consumes, and how. Times are seconds."""

    topic: str
    group: str
    client: str
    size: int
    """Messages of one claim, at most, until it grows."""
    lease: float
    wait: float
    """Length of a long poll; closing waits for it, so that no claimed message is left to its lease."""
    longest: float = 0.0
    """Length of a long poll when several topics are consumed, if the server allows it; closing does not wait for it."""
    ahead: int
    """The next claim is made when no more than this many messages wait to be handled; once claims have grown, when no
    more than half a claim does."""
    most: int = 0
    """Most messages that a claim grows to, while the workers wait for each; 0: it does not grow."""
    limit: int | None = None
    """Messages to hand out in all."""
    tags: tuple[str, ...] | None = None
    start: str | None = None
    """Where a new group begins, or a new client of a broadcast topic."""
    named: bool = False
    """The user chose the client's name."""
    max_messages: int = 1000
    max_bytes: int = 100 * 1024 * 1024
    """No claim is made while so many messages, or so many bytes, are held."""


def terms_for(identity: Identity, client: str | None, *, lease: Duration, wait: Duration, **rest: Any) -> Terms:
    """Terms of a loop; a client without a name gets a new one."""
    return Terms(
        client=client or identity.consumer(),
        named=client is not None,
        lease=milliseconds(lease, "lease") / 1000,
        wait=milliseconds(wait, "wait") / 1000,
        **rest,
    )


class Stock:
    """Messages claimed by one client of a group, with those that wait to be handed out."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._size = ClaimSize(terms.size, terms.most or terms.size, terms.ahead)
        self.holds = Holds(terms.lease)
        self.absence = Absence(terms.topic)
        self.waiting: deque[tuple[Hold, Message]] = deque()
        """Claimed, not yet handed out."""
        self._lanes: dict[str, _Lane] = {}
        """On ordered topics: the lane of each message that a handler works on; others of that lane have to wait."""
        self.after = ""
        """On a broadcast topic: up to where this client has seen everything, which its next claim confirms."""
        self._unseen: Hold | None = None
        """On a broadcast topic: the last answer. The next claim is made when all of it was seen, and confirms it."""
        self._suspects = 0
        """How many of the waiting messages were lost before."""
        self.wait = max(terms.wait, terms.longest)
        """Seconds that a long poll lasts."""
        self.tells = True
        """Whether the server is told which messages are begun; an older one refuses such claims."""
        self.alone: set[str] = set()
        """Ids of messages that were lost more than once and were handed out: one at a time, until the server knows the
        result. Otherwise, if the next one killed the client, both would count as lost."""
        self.handed = 0
        self.sign_every = SIGN
        """Seconds from one sign of life to the next."""
        self._alive_for = math.inf
        self._alive_until = math.inf
        """From then on the server may take the client for dead, and give away its messages: nothing is handed out."""
        self._doubted_at = -math.inf
        self._handed: dict[int, tuple[ref[Message], Hold, str]] = {}
        """Messages that were handed out, as long as anybody refers to them, by the identity of the weak reference."""
        self._dropped: deque[ref[Message]] = deque()
        """Weak references to messages that nobody refers to any more. Python itself appends to it, without the lock: in
        a callback of our own a Ctrl-C might come, and be lost."""
        self.left = 0
        """How many messages the loop has left unsettled."""
        self._claimed = False
        """Whether there was a claim, and not only answers of a broadcast topic."""

    def claim(self, size: int, *, last: bool = False) -> Call[Claim | None]:
        """The call for up to `size` more. On a broadcast topic it confirms those seen; the `last` does only that."""
        terms = self._terms
        return claims.claim(
            terms.topic,
            terms.group,
            client=terms.client,
            size=size,
            wait=0 if last else round(self.wait * 1000),
            lease=round(terms.lease * 1000),
            tags=terms.tags,
            start=terms.start,
            after=self.after,
            tells=self.tells,
        )

    def asks_less(self, refused: Collection[object]) -> bool:
        """Leaves out of further claims a field that the server has refused; False if it cannot be left out."""
        if _TELLS in refused and self.tells:
            self.tells = False  # the server is an older one
        elif _WAIT in refused and self.wait > self._terms.wait:
            self.wait = self._terms.wait
        else:
            return False
        return True

    def extend(self, hold: Hold, begun: Sequence[str] = ()) -> Call[Any]:
        """The call that renews a lease."""
        return claims.extend(hold.claim.id, round(self._terms.lease * 1000), begun)

    def claimed(self, claim: Claim | None, now: float, asked_at: float) -> None:
        """Takes the answer to a claim."""
        self.absence.answered(now)
        self.note_alive(asked_at)
        if claim is None or claim.next is None:  # on a broadcast topic all is handled before the next claim
            self._size.claimed(0 if claim is None else len(claim.messages), len(self.waiting))
        if claim is not None:
            self.add(claim, now, asked_at)

    def add(self, claim: Claim, now: float, asked_at: float = math.inf) -> None:
        """Adds a claim whose answer arrived now."""
        hold = self.holds.add(claim, now)
        if claim.next is not None:
            self._unseen = hold
        else:
            self._claimed = True
            if asked_at < self._doubted_at:
                hold.doubtful, hold.renew_at = True, now
        self.waiting.extend((hold, message) for message in claim.messages)
        self._suspects += sum(message.losses > 0 for message in claim.messages)

    def note_alive(self, asked_at: float, seconds: float | None = None) -> None:
        """Notes an answer of the server: the client counts as alive for `seconds` from `asked_at` on, or as long as
        before.

        If the server may have taken it for dead meanwhile, messages claimed before are not handed out until their lease
        is renewed.
        """
        if asked_at >= self._alive_until:
            _log.warning(
                "%s was silent for long; what it holds of %s is asked for", self._terms.client, self._terms.topic
            )
            self.holds.doubt(asked_at)
            self._doubted_at = asked_at
        if seconds is not None:
            self._alive_for = seconds
            self.sign_every = seconds / SIGNS
        until = asked_at + self._alive_for
        self._alive_until = until if self._alive_until == math.inf else max(until, self._alive_until)

    def take(self, now: float) -> tuple[Hold, Message] | None:
        """Takes the next message to be handled; None if none may be. Messages past their lease are dropped."""
        self.sweep()
        if now >= self._alive_until:
            return None
        while (index := self._first_free()) is not None:
            hold, message = self.waiting[index]
            if now >= hold.expires_at:
                self.lose(hold)
                continue
            del self.waiting[index]
            if message.losses:
                self._suspects -= 1
                if message.losses > 1:
                    self.alone.add(message.id)
            if (lane := _lane(hold, message)) is not None:
                self._lanes[message.id] = lane
            self.handed += 1
            return hold, message
        return None

    def sweep(self) -> bool:
        """Fails messages that nobody refers to any more; returns whether there were any."""
        any_dropped = bool(self._dropped)
        while self._dropped:
            _, hold, id_ = self._handed.pop(id(self._dropped.popleft()))
            self._leave(hold, id_)
        return any_dropped

    def _first_free(self) -> int | None:
        """Index of the first message that is surely ours, with no other of its lane being handled, or due before it."""
        busy = set(self._lanes.values())
        for index, (hold, message) in enumerate(self.waiting):
            if hold.doubtful or (busy and _lane(hold, message) in busy):
                continue
            if not message.losses or not self.tells or (message.id in hold.told and not self._is_held_up(message)):
                return index
            if (lane := _lane(hold, message)) is not None:
                busy.add(lane)
        return None

    # A message that was lost before may be what kills its client. The server is told before it is begun, so that it
    # alone counts when that happens again; and one that was lost more than once is begun only when no other such is.

    def _is_held_up(self, message: Message) -> bool:
        return message.losses > 1 and bool(self.alone)

    @property
    def suspicious(self) -> bool:
        """Whether a message waits that was lost before."""
        return self.tells and self._suspects > 0

    def suspect(self, wanted: int, now: float) -> None:
        """Prepares messages that were lost before for `wanted` idle workers: the server is told that they are begun
        with the renewal of their lease, which is now."""
        busy: set[_Lane | None] = set(self._lanes.values())
        alone = bool(self.alone)
        for hold, message in self.waiting if self.suspicious else ():
            if wanted <= 0:
                return
            if not message.losses or hold.doubtful or (lane := _lane(hold, message)) in busy:
                continue
            if lane is not None:
                busy.add(lane)
            if message.losses > 1 and alone:
                continue
            alone |= message.losses > 1
            wanted -= 1
            if message.id not in hold.told:
                hold.telling.add(message.id)
                hold.renew_at = now

    def begun(self, hold: Hold | None = None) -> list[tuple[Hold, list[str]]]:
        """The messages to report as begun: those that handlers work on, of all claims; or of one claim that is renewed,
        with those to be handed out then."""
        if not self.tells:
            return []
        soon = set[str]() if hold is None else hold.telling
        waiting = {message.id for _, message in self.waiting} - soon
        return [(one, ids) for one, ids in self.holds.untold(waiting) if hold is None or one is hold]

    def ack(self, hold: Hold, id_: str, now: float) -> bool:
        """Records that a message was handled; False if it is not held any more."""
        if hold is self._unseen:
            return self._see(hold, id_, seen=True)
        self._lanes.pop(id_, None)
        return self.holds.ack(hold, id_, now)

    def fail(self, settlement: Settlement) -> bool:
        """Records that a message is to be given back; False if it is not held any more."""
        hold = settlement.hold
        if hold is self._unseen:
            # Nothing is retried on a broadcast topic; a message given back uncounted counts as not seen.
            return self._see(hold, settlement.ids[0], seen=settlement.count)
        lane = self._lanes.pop(settlement.ids[0], None)
        taken = self.holds.fail(settlement)
        if taken and lane is not None:
            # The server takes back the later messages of its lane; they come again after it.
            behind = [message.id for other, message in self.waiting if other is hold and _lane(other, message) == lane]
            self.holds.drop(hold, behind)
            self._keep_waiting(pair for pair in self.waiting if pair[0] is not hold or pair[1].id not in behind)
        return taken

    def watch(self, delivery: Message, hold: Hold) -> None:
        """Watches a message that is handed out: once nobody refers to it, nobody will settle it."""
        reference = ref(delivery, self._dropped.append)
        self._handed[id(reference)] = (reference, hold, delivery.id)

    def end_loop(self) -> None:
        """Ends the user's loop: messages that were handed out and not begun have failed.

        On a broadcast topic such messages were not seen, and come again.
        """
        waiting = {message.id for _, message in self.waiting}
        for hold, id_ in self.holds.unbegun():
            if id_ not in waiting and hold is not self._unseen:
                self._leave(hold, id_)

    def _leave(self, hold: Hold, id_: str) -> None:
        # Counted: otherwise it would come again for ever, and nobody would see why.
        if id_ in hold.open and self.fail(
            Settlement(hold, "fail", (id_,), "left the loop unsettled: it wants `with message:`")
        ):
            self.left += 1

    def _see(self, hold: Hold, id_: str, *, seen: bool) -> bool:
        taken = self.holds.forget(hold, id_, seen=seen)
        self.after = hold.seen_to() or self.after
        return taken

    @property
    def unseen(self) -> bool:
        """Whether an answer of a broadcast topic is to be confirmed at the end."""
        return self._unseen is not None

    @property
    def watched(self) -> bool:
        """Whether to give signs of life. A client that gives them loses its place on a broadcast topic when it dies; so
        one that was given a name gives none before it holds a claim, which then ends sooner after its death."""
        return self._claimed or not self._terms.named

    @property
    def keeps_place(self) -> bool:
        """Whether the client may later go on where it was: on a broadcast topic, if it was given a name."""
        return self._unseen is not None and self._terms.named

    def confirmed(self) -> None:
        """Notes that the server knows which messages of a broadcast topic were seen."""
        if self._unseen is not None:
            self.holds.let_go(self._unseen)

    @property
    def in_hands(self) -> int:
        """How many messages were handed out and are not settled."""
        return self.holds.messages - len(self.waiting)

    def wanted(self) -> int:
        """How many messages to claim now; 0 for none."""
        terms = self._terms
        size = self._size.now
        rest = size if terms.limit is None else terms.limit - self.handed - len(self.waiting)
        size = min(size, rest, terms.max_messages - self.holds.messages)
        room = len(self.waiting) <= self._size.ahead and self.holds.bytes < terms.max_bytes
        seen = self._unseen is None or not self._unseen.open
        return size if size > 0 and room and seen else 0

    def give_back(self, *, but_in_hands: bool = False) -> None:
        """Gives back all open messages, uncounted; with `but_in_hands` those of handlers are left to their lease."""
        waiting = {message.id for _, message in self.waiting}
        self._keep_waiting(())
        self.holds.give_back(waiting if but_in_hands else None)

    def lose(self, hold: Hold) -> None:
        """Drops a claim whose lease is over, with its waiting messages."""
        # A claim whose last ack is on its way is not lost, even if its lease is over. Unsent acks are lost.
        self.alone.difference_update(message.id for message in hold.claim.messages)
        if (lost := self.holds.lose(hold)) and not self.absence.lost(lost):
            _log.warning("a lease on %s is over; %d messages come again", self._terms.topic, lost)
        self._keep_waiting(pair for pair in self.waiting if pair[0] is not hold)

    def _keep_waiting(self, pairs: Iterable[tuple[Hold, Message]]) -> None:
        self.waiting = deque(pairs)
        self._suspects = sum(message.losses > 0 for _, message in self.waiting)

    def renewed(self, hold: Hold, error: TarryError | None, now: float, begun: Sequence[str] = ()) -> None:
        """Takes the outcome of renewing a lease and of reporting what was begun. If the server was away, both are tried
        again soon, while the lease lasts."""
        hold.telling.difference_update(begun)
        if error is None:
            hold.told.update(begun)
            self.absence.answered(now)
            self.holds.renewed(hold, now)
        elif isinstance(error, LeaseLost | NotFound):
            self.absence.answered(now)
            self.lose(hold)
        else:
            if isinstance(error, Unavailable):
                self.absence.failed("renewing a lease on", error, now)
            else:
                _log.warning("renewing a lease on %s: %s", self._terms.topic, error)
            if now >= hold.expires_at:
                self.lose(hold)
            else:
                self.holds.not_renewed(hold, now)

    def settled(self, settlement: Settlement, error: TarryError | None, now: float) -> None:
        """Takes the outcome of the call for a settlement.

        The server may not know the claim any more; or a try whose answer was lost has done the fail.
        """
        count = len(settlement.ids)
        self.alone.difference_update(settlement.ids)
        if error is None:
            self.absence.answered(now)
        elif isinstance(error, LeaseLost | NotFound):
            self.absence.answered(now)
            if settlement.verb == "fail" and error.in_doubt:
                _log.info("fail of %d messages of %s was done, or their lease is over", count, self._terms.topic)
            else:
                _log.warning("%s of %d messages of %s dropped: %s", settlement.verb, count, self._terms.topic, error)
            # The keeper finds out whether the rest of the claim is lost too.
            settlement.hold.renew_at = now
        elif isinstance(error, Unavailable):
            self.absence.failed(f"{settlement.verb} of messages of", error, now)
            self.absence.lost(count)
        else:
            _log.warning(
                "%s of %d messages of %s failed, they come again: %s", settlement.verb, count, self._terms.topic, error
            )


_Lane = tuple[int, str | None]
"""Queue and ordering key: messages without one share a lane of their queue."""


def _lane(hold: Hold, message: Message) -> _Lane | None:
    return (message.queue, message.ordering_key) if hold.claim.ordered else None
