"""Broadcast: each client has every message, at an offset of its own that survives a lost answer and a restart."""

import pytest

from support.cleaning import DAY, LIMITS, whole_round
from support.stores import HOUR, MINUTE, SECOND, Stage, bodies_of
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.cleaning import retention
from tarry.store.groups import clients
from tarry.store.records import Group, Queue, ReadAnswer, ReadRequest, Topic
from tarry.store.stream import readers, stretches


async def news(stage: Stage, queues: int = 1) -> Group:
    topic = await stage.store.write(catalogue.add_topic, TopicDraft("news", kind="broadcast", queues=queues), stage.now)
    return await stage.group(topic, "screens")


@pytest.fixture
async def group(stage: Stage) -> Group:
    return await news(stage)


async def read(stage: Stage, group: Group, client: str = "a", size: int = 10, **how: object) -> ReadAnswer:
    (answer,) = await stage.store.write(readers.read_on, [ReadRequest(group, client, size, **how)], stage.now)  # type: ignore[arg-type]
    return answer


async def tell(stage: Stage, topic: Topic, *texts: bytes, queue: int = 0, tag: str | None = None) -> None:
    await stage.publish(*(stage.draft(topic, text, queue=queue, tag=tag) for text in texts))


def place(group: Group, answer: ReadAnswer) -> tuple[Queue, int]:
    number, offset = answer.next
    return group.topic.queues[number], offset


async def test_every_client_has_every_message(stage: Stage, group: Group) -> None:
    for client in "abc":
        assert (await read(stage, group, client)).messages == ()
    await tell(stage, group.topic, b"1", b"2", b"3")
    for client in "abc":
        assert bodies_of(await read(stage, group, client, size=2)) == [b"1", b"2"]
        assert bodies_of(await read(stage, group, client)) == [b"3"]
        assert bodies_of(await read(stage, group, client)) == []
    assert stage.count("claim") == stage.count("delivery") == stage.count("cursor") == 0


async def test_a_new_client_starts_at_the_latest_unless_it_says_so(stage: Stage, group: Group) -> None:
    await tell(stage, group.topic, b"1", b"2")
    assert bodies_of(await read(stage, group, "late")) == []
    assert bodies_of(await read(stage, group, "early", latest=False)) == [b"1", b"2"]
    assert bodies_of(await read(stage, group, "late", latest=False)) == [], "only the first wish says where to begin"
    await tell(stage, group.topic, b"3")
    assert bodies_of(await read(stage, group, "late")) == [b"3"]


async def test_groups_have_clients_of_their_own(stage: Stage, group: Group) -> None:
    other = await stage.group(group.topic, "phones")
    for one in (group, other):
        await read(stage, one)
    await tell(stage, group.topic, b"1")
    for one in (group, other):
        assert bodies_of(await read(stage, one)) == [b"1"]


async def test_what_is_not_confirmed_is_given_again(stage: Stage, group: Group) -> None:
    await read(stage, group)
    await tell(stage, group.topic, b"1", b"2", b"3")
    first = await read(stage, group, size=2, moves=False)
    assert bodies_of(await read(stage, group, size=2, moves=False)) == bodies_of(first) == [b"1", b"2"]
    second = await read(stage, group, size=2, moves=False, after=place(group, first))
    assert bodies_of(second) == [b"3"]
    again = await read(stage, group, size=2, moves=False, after=place(group, first))
    assert bodies_of(again) == [b"3"], "its answer was lost"
    last = await read(stage, group, moves=False, after=place(group, second))
    assert bodies_of(last) == []
    assert last.next == (0, 3)


async def test_a_late_confirmation_takes_nothing_back(stage: Stage, group: Group) -> None:
    await read(stage, group)
    await tell(stage, group.topic, b"1", b"2", b"3")
    first = await read(stage, group, size=1, moves=False)
    second = await read(stage, group, size=1, moves=False, after=place(group, first))
    third = await read(stage, group, size=1, moves=False, after=place(group, second))
    assert bodies_of(third) == [b"3"]
    assert bodies_of(await read(stage, group, size=1, moves=False, after=place(group, first))) == [b"3"]


async def test_nobody_confirms_what_is_not_there(stage: Stage, group: Group) -> None:
    await read(stage, group)
    await tell(stage, group.topic, b"1")
    answer = await read(stage, group, moves=False, after=(group.topic.queues[0], 2))
    assert answer.beyond
    assert bodies_of(await read(stage, group)) == [b"1"]


async def test_all_queues_of_a_topic_are_read(stage: Stage) -> None:
    group = await news(stage, queues=3)
    await read(stage, group)
    for number in range(3):
        await tell(stage, group.topic, b"%d" % number, queue=number)
    topic = await stage.store.write(catalogue.add_topic, TopicDraft("news", kind="broadcast", queues=4), stage.now)
    await tell(stage, topic, b"3", queue=3)
    group = await stage.group(topic, "screens")
    seen: list[bytes] = []
    after = None
    while answer := bodies_of(got := await read(stage, group, moves=False, after=after)):
        after = place(group, got)
        seen += answer
    assert sorted(seen) == [b"0", b"1", b"2", b"3"], "a queue that was gained since is read from its beginning"


async def test_tags_choose(stage: Stage, group: Group) -> None:
    await read(stage, group)
    await tell(stage, group.topic, b"1", tag="red")
    await tell(stage, group.topic, *[b"x"] * 1500, tag="blue")
    await tell(stage, group.topic, b"2", tag="red")
    red = frozenset({"red"})
    first = await read(stage, group, size=1, tags=red, moves=False)
    assert bodies_of(first) == [b"1"]
    got = await read(stage, group, tags=red, moves=False, after=place(group, first))
    assert got.more, "it stops in between"
    assert bodies_of(got) == []
    assert bodies_of(await read(stage, group, tags=red, moves=False, after=place(group, got))) == [b"2"]


async def test_clients_abreast_and_one_client_twice_in_one_transaction(stage: Stage, group: Group) -> None:
    for client in "ab":
        await read(stage, group, client)
    await tell(stage, group.topic, b"1", b"2", b"3")
    wishes = [ReadRequest(group, client, 2) for client in "baa"]
    answers = await stage.store.write(readers.read_on, wishes, stage.now)
    assert [bodies_of(answer) for answer in answers] == [[b"1", b"2"], [b"1", b"2"], [b"3"]]


async def test_a_hole_is_passed_in_one_go(stage: Stage, group: Group) -> None:
    """Retention has taken what lies in between."""
    await read(stage, group)
    await tell(stage, group.topic, *[b"x"] * 50)
    stage.tables.rows("DELETE FROM message WHERE `offset` < 49")
    answer = await read(stage, group, size=1)
    assert bodies_of(answer) == [b"x"]
    assert answer.next == (0, 50)


async def test_a_client_that_is_forgotten_starts_anew(stage: Stage, group: Group) -> None:
    await read(stage, group, "a")
    await read(stage, group, "b")
    await tell(stage, group.topic, b"1")
    await stage.store.write(clients.remove, {"a": None}, stage.now)
    assert bodies_of(await read(stage, group, "a")) == []
    assert bodies_of(await read(stage, group, "b")) == [b"1"]


async def test_a_client_may_start_at_a_time(stage: Stage) -> None:
    group = await news(stage, queues=2)
    times: list[int] = []
    for number in range(6):
        times.append(stage.now)
        await tell(stage, group.topic, b"%d" % number, queue=number % 2)
        stage.now += SECOND

    async def all_of(client: str, since: int) -> list[bytes]:
        seen: list[bytes] = []
        while got := bodies_of(await read(stage, group, client, since=since)):
            seen += got
        return sorted(seen)

    assert await all_of("a", times[3]) == [b"3", b"4", b"5"]
    assert await all_of("b", times[3] + 1) == [b"4", b"5"]
    assert await all_of("c", 0) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert await all_of("d", stage.now + HOUR) == []
    assert await all_of("a", times[0]) == [], "only the first wish says where to begin"
    await tell(stage, group.topic, b"6")
    assert [bodies_of(await read(stage, group, client)) for client in "abcd"] == [[b"6"]] * 4


async def test_a_client_that_never_asks_again_loses_its_offsets(stage: Stage) -> None:
    group = await news(stage, queues=2)
    other = await stage.group(group.topic, "phones")
    for client in ("gone", "here", "late"):
        await read(stage, group, client)
    await read(stage, other, "gone")
    stage.now += 27 * DAY
    await read(stage, group, "here")
    await tell(stage, group.topic, b"1")
    assert await clean(stage, group, limit=1) == 0
    stage.now += DAY - 1
    assert await clean(stage, group, limit=1) == 0
    assert bodies_of(await read(stage, group, "late")) == [b"1"]
    stage.now += 1
    assert await clean(stage, group, limit=1) == 2
    assert stage.count("reader") == 2 * 2 + 2
    assert bodies_of(await read(stage, group, "gone")) == [], "it begins at the latest again"
    assert bodies_of(await read(stage, group, "here")) == [b"1"]
    assert bodies_of(await read(stage, other, "gone")) == [b"1"]
    assert await clean(stage, other) == 0
    since = stage.now - 28 * DAY
    assert await stage.store.backend.write(lambda tx: tx.execute("reader.expunge", group.id, [b"here"], since)) == 0, (
        "it asked while it was looked for"
    )


async def clean(stage: Stage, group: Group, limit: int = 100) -> int:
    return (await whole_round(stage, retention.clean_readers, group=group, limits=LIMITS, limit=limit)).rows


async def test_a_poll_notes_once_a_minute_that_it_was_asked(stage: Stage) -> None:
    group = await news(stage, queues=2)
    began = stage.now
    for after, noted in ((0, 0), (MINUTE - 1, 0), (MINUTE, MINUTE), (2 * MINUTE - 1, MINUTE), (HOUR, HOUR)):
        stage.now = began + after
        await read(stage, group)
        assert set(stage.column("SELECT asked_at FROM reader")) == {began + noted}


async def test_the_state_of_a_group_tells_its_clients(stage: Stage, group: Group) -> None:
    await read(stage, group, "a")
    await read(stage, group, "b")
    await tell(stage, group.topic, b"1", b"2", b"3")
    await read(stage, group, "b", size=2)
    state = await stage.group_state(group)
    assert state.clients == ("a", "b")
    assert [(queue.offset, queue.end) for queue in state.queues] == [(0, 3)]


async def test_a_pull_passes_what_retention_has_taken(stage: Stage, topic: Topic) -> None:
    await tell(stage, topic, *[b"%d" % i for i in range(30)])
    stage.tables.rows("DELETE FROM message WHERE `offset` < 20")
    queue = topic.queues[0]
    for offset, expected in ((0, [20, 21, 22]), (19, [20, 21]), (28, [28, 29]), (30, []), (1 << 62, [])):
        assert [m.offset for m in await stage.store.read(stretches.pull, queue, offset, 3)] == expected
    stage.tables.rows("DELETE FROM message")
    assert await stage.store.read(stretches.pull, queue, 0, 3) == []
