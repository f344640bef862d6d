"""Accepting messages: now and later, single and many, all or none."""

import random
from functools import partial

import pytest

from support.at_once import at_once
from support.stores import HOUR, MINUTE, SECOND, START, Stage, ids_of
from tarry.store import catalogue
from tarry.store.errors import DuplicateKey, Refused
from tarry.store.ids import IdMaker, due_of
from tarry.store.looking import found_pages
from tarry.store.ports import Transaction
from tarry.store.records import Conflict, Publication, Receipt, Topic
from tarry.store.store import IDEMPOTENCY_WINDOW, Store
from tarry.store.stream import idempotency, publishing, stretches
from tarry.store.timers import timers


async def test_now_goes_straight_to_the_stream(stage: Stage, topic: Topic) -> None:
    (receipt,) = await stage.publish(
        stage.draft(
            topic, b'{"order":7}', key="order-7", ordering_key="c", tag="t", headers=b'{"a":"b"}', content_type="x/y"
        )
    )
    assert receipt == Receipt(receipt.id, "published", START, START, queue=0, offset=0)
    assert due_of(receipt.id) == START
    (message,) = await stage.store.read(stretches.pull, topic.queues[0], 0, 10)
    assert (message.id, message.queue, message.offset, message.attempt) == (receipt.id, 0, 0, 1)
    assert (message.key, message.ordering_key, message.tag) == ("order-7", "c", "t")
    assert (message.headers, message.content_type, message.body) == (b'{"a":"b"}', "x/y", b'{"order":7}')
    assert (message.accepted_at, message.deliver_at, message.streamed_at) == (START, START, START)


@pytest.mark.parametrize("delay", [1, 48 * HOUR])
async def test_later_waits_in_delay(stage: Stage, delay: int, topic: Topic) -> None:
    (receipt,) = await stage.publish(stage.draft(topic, delay=delay))
    due = START + delay
    assert receipt == Receipt(receipt.id, "scheduled", due, due)
    assert due_of(receipt.id) == due
    assert await stage.store.read(stretches.pull, topic.queues[0], 0, 10) == []
    assert await stage.waiting() == {receipt.id: due}


@pytest.mark.parametrize("delay", [-HOUR, -1, 0, -START - 1, -60_000_000_000_000])
async def test_a_time_that_has_come_is_now(stage: Stage, delay: int, topic: Topic) -> None:
    (receipt,) = await stage.publish(stage.draft(topic, delay=delay))
    assert (receipt.state, receipt.offset, receipt.deliver_at) == ("published", 0, START + delay)
    (message,) = await stage.store.read(stretches.pull, topic.queues[0], 0, 10)
    assert message.deliver_at == START + delay


async def test_receipts_come_in_the_order_of_drafts(stage: Stage) -> None:
    topic = await stage.topic(queues=2)
    drafts = [stage.draft(topic, b"%d" % i, None if i % 3 else i * SECOND, queue=i % 2) for i in range(50)]
    receipts = await stage.publish(*drafts)
    assert [r.state for r in receipts] == ["published" if i % 3 or i == 0 else "scheduled" for i in range(50)]
    for i, receipt in enumerate(receipts):
        found = await stage.found(receipt.id)
        assert found.body == b"%d" % i
        if receipt.state == "published":
            assert (receipt.queue, found.queue, found.offset) == (i % 2, i % 2, receipt.offset)
    for queue in (0, 1):
        offsets = [r.offset for r in receipts if r.queue == queue]
        assert offsets == list(range(len(offsets)))


async def test_many_requests_in_one_transaction_are_answered_in_order(stage: Stage) -> None:
    one, other = await stage.topic("one"), await stage.topic("other")
    publications = [Publication((stage.draft(one if i % 2 else other, b"%d" % i),) * 2) for i in range(20)]
    answers = await stage.store.publish(publications, stage.now)
    for topic, start in ((other, 0), (one, 1)):
        offsets: list[int | None] = []
        for answer in answers[start::2]:
            assert not isinstance(answer, Conflict)
            offsets += [receipt.offset for receipt in answer]
        assert offsets == list(range(20))
        states = await stage.store.read(catalogue.topic_states, [topic])
        assert states[topic.id].accepted == states[topic.id].streamed == 20


async def test_ids_are_unique(stage: Stage, topic: Topic) -> None:
    ids: list[int] = []
    for delay in (None, HOUR):
        for _ in range(3):
            ids += ids_of(await stage.publish(*(stage.draft(topic, delay=delay) for _ in range(700))))
    assert len(set(ids)) == 4200


async def test_a_request_is_all_or_none(stage: Stage, topic: Topic) -> None:
    """Whatever is refused takes its whole transaction along."""
    broken = stage.draft(topic, b"second", HOUR, key="\ud800")  # half a surrogate pair: no UTF-8
    with pytest.raises((Refused, UnicodeEncodeError)):
        await stage.publish(stage.draft(topic, b"first", HOUR), stage.draft(topic, b"now"), broken)
    assert [stage.count(table) for table in ("delay", "message", "label", "tally")] == [0] * 4
    assert stage.column("SELECT next_offset FROM queue") == [0]
    (receipt,) = await stage.publish(stage.draft(topic))
    assert receipt.offset == 0


@pytest.mark.parametrize("delay", [None, HOUR])
async def test_any_body(stage: Stage, delay: int | None) -> None:
    every_byte = bytes(range(256))
    bodies = [
        b"",
        b"\0",
        b"\0\0'\"\\%_?;--\x1a",
        every_byte,
        every_byte * 1024,
        b"\xff\xfe",
        "żółw 🐢".encode(),
        b"x'00'",
    ]
    topic = await stage.topic()
    await stage.publish(*(stage.draft(topic, body, delay) for body in bodies))
    await stage.fall_due(after=2 * HOUR)
    got = [message.body for message in await stage.store.read(stretches.pull, topic.queues[0], 0, 100)]
    assert sorted(got) == sorted(bodies)


@pytest.mark.slow
async def test_more_than_one_packet(stage: Stage, topic: Topic) -> None:
    """A request beyond max_allowed_packet goes in several statements of one transaction."""
    drafts = [stage.draft(topic, bytes([i]) * (256 << 10), HOUR if i % 2 else None) for i in range(140)]
    receipts = await stage.publish(*drafts)
    assert len(receipts) == 140
    assert stage.count("delay") == stage.count("message") == 70
    assert len(await stage.fall_due(after=HOUR)) == 70
    sizes = stage.column("SELECT COUNT(*) FROM message WHERE LENGTH(body) = 262144")
    assert sizes == [140]


async def labelled(stage: Stage, topic: Topic, key: str, after: int, limit: int) -> list[int]:
    page = await stage.store.read(found_pages.find_labelled, topic, key, after, limit)
    assert page.after is None or len(page.messages) == limit
    return [one.id for one in page.messages]


@pytest.mark.parametrize(
    "key", ["order-7", "Order-7", "order-7 ", "órder-7", "🐢" * 60, "a\0b", "'; DROP TABLE x; --", "%"]
)
async def test_keys_are_bytes(stage: Stage, key: str, topic: Topic) -> None:
    others = ["order-7", "Order-7", "ORDER-7", "order-7 ", " order-7", "orde\u0301r-7", "a", "🐢", "_"]
    for other in others:
        await stage.publish(stage.draft(topic, delay=HOUR, key=other))
    (receipt,) = await stage.publish(stage.draft(topic, delay=2 * HOUR, key=key))
    expected = [receipt.id]
    if key in others:
        expected.insert(0, (await labelled(stage, topic, key, 0, 10))[0])
    assert await labelled(stage, topic, key, 0, 10) == expected
    found = await stage.found(receipt.id)
    assert found.key == key


async def test_labels_page_by_id(stage: Stage) -> None:
    topic, other = await stage.topic(), await stage.topic("other")
    receipts = await stage.publish(*(stage.draft(topic, delay=HOUR + i, key="k") for i in range(10)))
    await stage.publish(stage.draft(other, delay=HOUR, key="k"))
    ids = ids_of(receipts)
    assert await labelled(stage, topic, "k", 0, 4) == ids[:4]
    assert await labelled(stage, topic, "k", ids[3], 4) == ids[4:8]
    assert await labelled(stage, topic, "k", ids[-1], 4) == []
    assert await labelled(stage, topic, "none", 0, 4) == []


async def test_a_later_run_of_a_batch_has_the_same_ids(stage: Stage, topic: Topic) -> None:
    """Whatever became of the COMMIT of the one before, a message is there once."""
    batch = [Publication((stage.draft(topic), stage.draft(topic, delay=HOUR)))]
    made: list[int] = []
    runs: list[list[int]] = []

    async def work(tx: Transaction) -> None:
        run = publishing.Publishing(
            stage.store.ids, stage.now, IDEMPOTENCY_WINDOW, stage.store.tally_shard, made=made, look=False
        )
        await run.write(tx, batch)
        await tx.fetch("queue.ends", tuple[int, int], [topic.queues[0].id])  # it has been carried out
        (answer,) = run.answers()
        assert isinstance(answer, list)
        runs.append(ids_of(answer))
        raise Refused("once more")

    for _ in range(2):
        with pytest.raises(Refused):
            await stage.store.backend.write(work)
    assert runs == [made, made]


class TestIdempotency:
    async def test_the_same_request_gives_the_first_answer(self, stage: Stage, topic: Topic) -> None:
        publication = Publication((stage.draft(topic, b"a", HOUR), stage.draft(topic, b"b")), "once", b"f" * 32)
        first = await stage.accept(publication)
        stage.now += MINUTE
        again = await stage.accept(publication)
        assert [r.replayed for r in (*first, *again)] == [False, False, True, True]
        assert [(r.id, r.state, r.deliver_at, r.due, r.queue, r.offset) for r in again] == [
            (r.id, r.state, r.deliver_at, r.due, r.queue, r.offset) for r in first
        ]
        assert stage.count("delay") + stage.count("message") == 2
        assert (await stage.state(topic)).accepted == 2

    async def test_the_first_answer_outlives_what_became_of_the_message(self, stage: Stage, topic: Topic) -> None:
        cancelled = Publication((stage.draft(topic, b"a", HOUR),), "cancelled", b"a" * 32)
        moved = Publication((stage.draft(topic, b"b", HOUR),), "moved", b"b" * 32)
        gone = Publication((stage.draft(topic, b"c", MINUTE),), "promoted", b"c" * 32)
        answers = await stage.store.publish([cancelled, moved, gone], stage.now)
        ids = [answer[0].id for answer in answers if not isinstance(answer, Conflict)]
        await stage.store.cancel(ids[:1], stage.now)
        await stage.store.write(timers.reschedule, [(ids[1], stage.now + 9 * HOUR)], stage.now)
        stage.now += MINUTE
        assert len(await stage.promote(*ids)) == 1
        again = await stage.store.publish([cancelled, moved, gone], stage.now)
        for first, replay in zip(answers, again, strict=True):
            assert not isinstance(first, Conflict)
            assert not isinstance(replay, Conflict)
            assert replay[0].replayed
            assert (replay[0].id, replay[0].state, replay[0].due) == (first[0].id, "scheduled", first[0].due)

    async def test_beside_one_that_comes_again_each_has_its_own_id(self, stage: Stage, topic: Topic) -> None:
        """Also the two of a request, of which only one waits for its time."""
        again = Publication((stage.draft(topic), stage.draft(topic, delay=2 * HOUR)), "k", b"1" * 32)
        await stage.ask(again)
        new = Publication((stage.draft(topic, delay=HOUR), stage.draft(topic)))
        _, answer = await stage.store.publish([again, new], stage.now)
        assert isinstance(answer, list)
        assert [due_of(receipt.id) for receipt in answer] == [START + HOUR, START]
        assert await stage.waiting() | {answer[0].id: START + HOUR} == await stage.waiting()

    async def test_a_conflict_leaves_its_neighbours_alone(self, stage: Stage, topic: Topic) -> None:
        await stage.ask(Publication((stage.draft(topic),), "k", b"1" * 32))
        answers = await stage.store.publish(
            [
                Publication((stage.draft(topic, b"before"),)),
                Publication((stage.draft(topic, b"clash"),), "k", b"2" * 32),
                Publication((stage.draft(topic, b"after"),)),
            ],
            stage.now,
        )
        assert [isinstance(answer, Conflict) for answer in answers] == [False, True, False]
        got = [message.body for message in await stage.store.read(stretches.pull, topic.queues[0], 1, 10)]
        assert got == [b"before", b"after"]

    async def test_old_keys_are_forgotten_in_batches(self, stage: Stage, topic: Topic) -> None:
        for i in range(5):
            await stage.ask(Publication((stage.draft(topic),), f"old-{i}", b"1" * 32))
        stage.now += MINUTE
        await stage.ask(Publication((stage.draft(topic),), "new", b"1" * 32))
        over = START + IDEMPOTENCY_WINDOW + 1
        same, other = {("old-0", b"1" * 32), ("new", b"1" * 32)}, {("old-0", b"2" * 32), ("none", b"1" * 32)}
        assert await stage.store.read(idempotency.seen, topic.id, same | other, over - 2) == same
        assert await stage.store.read(idempotency.seen, topic.id, same | other, over - 1) == {("new", b"1" * 32)}
        assert await stage.store.write(idempotency.forget, over - 1, 3) == 0
        assert await stage.store.write(idempotency.forget, over, 3) == 3
        assert await stage.store.write(idempotency.forget, over, 3) == 2
        assert await stage.store.write(idempotency.forget, over, 3) == 0
        assert stage.column("SELECT `key` FROM idempotency") == [b"new"]

    @pytest.mark.parametrize("delay", [None, HOUR])
    async def test_the_same_key_from_two_tasks(self, stage: Stage, delay: int | None, topic: Topic) -> None:
        """Each second time the window of an older answer is over: all find it and take it away, and nobody takes away
        the new one."""
        receipts: list[Receipt] = []

        async def one(publication: Publication) -> None:
            receipts.extend(await stage.accept(publication))

        for round_ in range(10):
            publication = Publication((stage.draft(topic, delay=delay),), f"k{round_ // 2}", b"1" * 32)
            await at_once(*[partial(one, publication)] * 4)
            assert len({receipt.id for receipt in receipts}) == 1
            assert sorted(receipt.replayed for receipt in receipts) == [False, True, True, True], round_
            receipts.clear()
            stage.now += IDEMPOTENCY_WINDOW
        assert stage.count("delay") + stage.count("message") == 10


async def published(store: Store, publication: Publication, now: int) -> list[Receipt]:
    (answer,) = await store.publish([publication], now)
    assert not isinstance(answer, Conflict)
    return answer


class Scripted(random.Random):
    """Random numbers that begin alike in every process."""

    def __init__(self) -> None:
        super().__init__(7)


class TestTakenIds:
    """Two makers that draw the same numbers."""

    @pytest.mark.parametrize("delay", [None, HOUR])
    async def test_new_numbers_never_earlier(self, stage: Stage, delay: int | None, topic: Topic) -> None:
        drafts = [stage.draft(topic, delay=delay) for _ in range(20)]
        due = START + (delay or 0)
        seen: set[int] = set()
        for _ in range(4):  # the sequel of each tally_shard is the same
            store = Store(stage.store.backend, ids=IdMaker(Scripted()))
            for receipt in await published(store, Publication(tuple(drafts)), stage.now):
                assert receipt.id not in seen
                assert due <= due_of(receipt.id) <= due + SECOND
                assert receipt.deliver_at == due
                seen.add(receipt.id)
        assert stage.count("delay") + stage.count("message") == len(seen) == 80
        if delay:
            stage.now = due + SECOND
            await stage.fall_due()
        offsets = stage.column("SELECT `offset` FROM message ORDER BY `offset`")
        assert offsets == list(range(80))

    async def test_not_the_id_of_a_cancelled_message(self, stage: Stage, topic: Topic) -> None:
        """A cancel that is sent again must not hit a stranger."""
        first = Store(stage.store.backend, ids=IdMaker(Scripted()))
        second = Store(stage.store.backend, ids=IdMaker(Scripted()))
        publication = Publication((stage.draft(topic, delay=HOUR),))
        (mine,) = await published(first, publication, stage.now)
        await first.cancel([mine.id], stage.now)
        (theirs,) = await published(second, publication, stage.now)
        assert theirs.id != mine.id
        (again,) = await first.cancel([mine.id], stage.now)
        assert (again.result, again.fresh) == ("cancelled", False)
        assert stage.count("delay") == 1

    async def test_not_the_id_of_a_message_that_was_brought_forward(self, stage: Stage, topic: Topic) -> None:
        """It would stop the promotion of its whole batch, for ever."""
        first = Store(stage.store.backend, ids=IdMaker(Scripted()))
        second = Store(stage.store.backend, ids=IdMaker(Scripted()))
        publication = Publication((stage.draft(topic, delay=HOUR),))
        (mine,) = await published(first, publication, stage.now)
        await first.write(timers.reschedule, [(mine.id, stage.now)], stage.now)
        assert len(await stage.promote(mine.id)) == 1
        await published(second, publication, stage.now)
        await stage.fall_due(after=HOUR + SECOND)
        assert stage.count("delay") == 0
        assert stage.count("message") == 2

    async def test_a_key_that_is_always_taken_comes_out_as_such(self, stage: Stage) -> None:
        """Not in an endless loop."""

        class Stuck(IdMaker):
            def make(self, due: int, *, shard: int | None = None, straight: bool = False, spread: int = 0) -> int:
                return due << 21 | straight << 20

        topic = await stage.topic()
        store = Store(stage.store.backend, ids=Stuck())
        publication = Publication((stage.draft(topic, delay=HOUR),))
        await store.publish([publication], stage.now)
        with pytest.raises(DuplicateKey):
            await store.publish([publication], stage.now)
        assert stage.count("delay") == 1


async def test_offsets_have_no_gap_and_a_reader_skips_none(stage: Stage) -> None:
    """I12. A reader at the end of the queue never finds out later that something appeared behind it."""
    topic = await stage.topic(queues=2)
    queue = topic.queues[0]
    writers, rounds = 8, 15
    seen: list[int] = []
    bodies: list[bytes] = []
    writing = writers

    async def write(number: int) -> None:
        nonlocal writing
        # Nodes of their own: they share no row but the queues'.
        store = Store(stage.store.backend, tally_shard=16 * number)
        for i in range(rounds):
            size = 1 + (number + i) % 3
            drafts = [stage.draft(topic, b"%d/%d/%d" % (number, i, j)) for j in range(size)]
            drafts.append(stage.draft(topic, b"elsewhere", queue=1))
            await store.publish([Publication(tuple(drafts))], stage.now)
        writing -= 1

    async def read() -> None:
        while True:
            last_look = not writing
            page = await stage.store.read(stretches.pull, queue, len(seen), 1000)
            seen.extend(message.offset for message in page)
            bodies.extend(message.body for message in page)
            if last_look:
                return

    await at_once(read, *(partial(write, number) for number in range(writers)))
    assert seen == list(range(len(seen)))
    assert len(seen) == len(set(bodies)) == sum(1 + (n + i) % 3 for n in range(writers) for i in range(rounds))
    everything = [message.body for message in await stage.store.read(stretches.pull, queue, 0, 10_000)]
    assert everything == bodies
    ends = await stage.store.read(catalogue.queue_ends, [queue.id for queue in topic.queues])
    assert ends == {queue.id: len(seen), topic.queues[1].id: writers * rounds}
