"""Tags on ordered topics: a key's order holds among what is handed out, and never waits for what is not (I11, I14)."""

import random

import pytest

from support.books import conserves
from support.stores import MINUTE, SECOND, Stage, bodies
from tarry.store.groups import claims
from tarry.store.records import Claim, ClaimRequest, Group, Settlement, Topic, Turn
from tarry.wheel.ladder import Ladder

RED = frozenset({"red"})
TAGS = {"r": "red", "b": "blue", "n": None}


async def begin(stage: Stage, texts: str, *, queues: int = 1, ladder: Ladder | None = None) -> tuple[Topic, Group]:
    """A message per word: its key, its tag's letter, a number."""
    topic, group = await stage.topic_and_group(ordered=True, queues=queues, ladder=ladder)
    await tell(stage, topic, texts)
    return topic, group


async def tell(stage: Stage, topic: Topic, texts: str) -> None:
    for text in texts.split():
        await stage.publish(stage.draft(topic, text.encode(), ordering_key=text[0], tag=TAGS[text[1]]))


async def take(stage: Stage, group: Group, tags: frozenset[str] | None = RED, size: int = 10) -> Turn:
    """Turn after turn, as the coordinator does, until there is something or no more."""
    while True:
        turn = await stage.turn(group, requests=[ClaimRequest("c", size, MINUTE, tags)])
        if turn.claims[0] is not None or not turn.cut:
            return turn


async def claim(stage: Stage, group: Group, tags: frozenset[str] | None = RED, size: int = 10) -> Claim:
    (got,) = (await take(stage, group, tags, size)).claims
    assert got is not None, "there was nothing to claim"
    return got


async def back(stage: Stage, group: Group, tags: frozenset[str] | None = RED) -> Claim:
    await stage.fall_due(after=20 * SECOND)
    return await claim(stage, group, tags)


async def test_others_are_skipped_and_order_holds(stage: Stage) -> None:
    _, group = await begin(stage, "ab1 ar2 br1 ab3 an4 ar5 bb2")
    got = await claim(stage, group)
    assert bodies(got) == [b"ar2", b"br1", b"ar5"]
    conserves(stage)
    assert (await stage.ack(group, got)).acked == 3
    assert stage.column("SELECT skipped FROM `cursor` ORDER BY queue_id") == [4, 0]
    assert (await take(stage, group, None)).claims == (None,), "they count as settled for the group"
    assert stage.count("chain") == stage.count("parked") == 0
    conserves(stage)


async def test_what_fails_goes_back_with_those_of_its_key_that_are_wanted(stage: Stage) -> None:
    topic, group = await begin(stage, "ar1 ab2 ar3 br1")
    got = await claim(stage, group)
    await stage.fail(group, got, (0,))
    await stage.ack(group, got)
    await tell(stage, topic, "ab4 ar5")
    assert (await take(stage, group)).claims == (None,)
    assert stage.column("SELECT message_offset FROM parked ORDER BY message_offset") == [2, 5], "a4 is not waited for"
    conserves(stage)
    for texts in ([b"ar1"], [b"ar3", b"ar5"]):
        got = await back(stage, group)
        assert bodies(got) == texts
        await stage.ack(group, got)
    assert stage.count("chain") == stage.count("parked") == 0
    conserves(stage)


async def test_parked_and_returned_messages_of_other_tags_let_their_key_go(stage: Stage) -> None:
    """The group asked for all, and now asks for less."""
    topic, group = await begin(stage, "ab1 ab2 ar3 ab4 ar5")
    got = await claim(stage, group, None)
    assert len(got.messages) == 5
    await stage.fail(group, got)
    await tell(stage, topic, "ar6")
    assert (await take(stage, group)).claims == (None,)
    assert stage.count("parked") == 5
    last = await back(stage, group)
    assert bodies(last) == [b"ar3", b"ar5", b"ar6"]
    assert (await stage.ack(group, last)).acked == 3
    assert stage.count("chain") == stage.count("parked") == stage.count("retry") == 0
    assert stage.column("SELECT skipped FROM `cursor` ORDER BY queue_id") == [0, 3]
    conserves(stage)


async def test_a_turn_is_gone_on_with_among_other_tags(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "SCAN", 5)
    _, group = await begin(stage, " ".join(["ab0"] * 23) + " ar1")
    turns = 0
    while True:
        turn = await stage.turn(group, requests=[ClaimRequest("c", 3, MINUTE, RED)])
        turns += 1
        if turn.claims[0] is not None:
            break
        assert turn.cut
    assert bodies(turn.claims[0]) == [b"ar1"]
    assert turns > 3
    conserves(stage)


@pytest.mark.parametrize("seed", range(4))
async def test_no_message_overtakes_whatever_fails(stage: Stage, seed: int) -> None:
    dice = random.Random(seed)
    topic, group = await begin(stage, "", queues=2, ladder=Ladder((SECOND,) * 50))
    wanted: dict[str, list[bytes]] = {key: [] for key in "abc"}
    done: dict[str, list[bytes]] = {key: [] for key in "abc"}
    for number in range(60):
        key, tag = dice.choice("abc"), dice.choice("rb")
        text = f"{key}{tag}{number}"
        queue = ord(key) % 2
        await stage.publish(stage.draft(topic, text.encode(), queue=queue, ordering_key=key, tag=TAGS[tag]))
        if tag == "r":
            wanted[key].append(text.encode())
        if number % 3 == 0 or number == 59:
            while done != wanted if number == 59 else dice.random() < 0.6:
                await stage.fall_due(after=2 * SECOND)
                (got,) = (await take(stage, group, size=dice.randrange(1, 6))).claims
                conserves(stage)
                if got is None:
                    continue
                failing = {message.ordering_key for message in got.messages if dice.random() < 0.2}
                acked = [m for m in got.messages if m.ordering_key not in failing]
                for message in acked:
                    assert message.ordering_key is not None
                    done[message.ordering_key].append(message.body)
                if acked:
                    await stage.ack(group, got, tuple(got.places[m.id] for m in acked))
                if failing:
                    await stage.settle(group, Settlement(got.key, "fail"))
    assert done == wanted
    assert stage.count("chain") == stage.count("parked") == 0
