"""Runs a schedule on a stage, minute after minute."""

import msgspec
from attrs import define

from support.stores import MINUTE, Stage
from tarry.service.schedules.courses import course_of
from tarry.store.records import Topic
from tarry.store.schedules import schedules
from tarry.store.schedules.schedules import Wish


@define
class Days:
    """A schedule that fires every minute, and the wheel entries of the messages that it has sent."""

    stage: Stage
    topic: Topic
    sent: list[int]

    @classmethod
    async def begin(cls, stage: Stage, name: str = "minutely", topic_name: str = "orders") -> "Days":
        topic = await stage.topic(topic_name)

        stage.store.courses = course_of
        spec = msgspec.json.encode({"topic": topic.name, "every": MINUTE, "body": {}, "key": "k"})
        wish = Wish(name, topic, topic.queues[0], spec, None)
        await stage.store.change(lambda tx, firing: schedules.put(tx, firing, wish), stage.now)
        return cls(stage, topic, [])

    async def live(self, minutes: int) -> None:
        for _ in range(minutes):
            self.stage.now += MINUTE
            self.sent += [done.entry for done in await self.stage.fall_due()]

    async def run(self, name: str = "minutely") -> int:
        done = await self.stage.store.change(lambda tx, firing: schedules.run(tx, firing, name), self.stage.now)
        assert done is not None
        await self.stage.fall_due()
        return done[0]
