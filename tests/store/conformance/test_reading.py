"""I12 where offsets are drawn in the database; where they are drawn in Redis: `mysql/test_sequencing.py`."""

import random

import pytest
import trio

from support.reading import CLAIM_BYTES, Readers
from support.stores import Stage
from tarry.store.stream import stretches


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_reader_skips_what_random_writers_commit(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(stretches, "CLAIM_BYTES", CLAIM_BYTES)
    topic = await stage.topic(queues=2)
    await stage.group(topic)
    readers = Readers(stage, topic, random.Random(seed))
    await readers.stock()

    async def read(number: int | None) -> None:
        last_look = False
        while True:
            came = await (readers.claim() if number is None else readers.pull(number))
            if last_look and not came:
                return
            last_look = done.is_set()
            await trio.lowlevel.checkpoint()

    done = trio.Event()
    async with trio.open_nursery() as nursery:
        for number in (0, 1, None):
            nursery.start_soon(read, number)
        await readers.run()
        done.set()
    readers.check(holes=False)
