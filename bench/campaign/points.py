"""Named points of publish, promote, cancel, claim, ack, fail and death, at which a node may end itself."""

from random import Random

POINTS = (
    *("delay.add_bare:after", "delay.add_bare:commit", "delay.add_bare:committed"),
    *("delay.add:after", "delay.add:commit", "delay.add:committed"),
    *("message.add:before", "message.add:after", "message.add:commit", "message.add:committed"),
    *("message.add_bare:after", "message.add_bare:commit", "message.add_bare:committed"),
    *("delay.lock_due:after", "message.promote:after", "delay.remove:commit", "delay.remove:committed"),
    *("cancelled.add:after", "cancelled.add:commit", "cancelled.add:committed"),
    *("claim.add:after", "claim.add:commit", "claim.add:committed"),
    *("delivery.add:after", "delivery.add:commit", "delivery.add:committed"),
    *("retry.add:after", "retry.add:commit", "retry.add:committed"),
    *("redelivery.add:after", "redelivery.add:commit", "redelivery.add:committed"),
    *("dead.add:after", "dead.add:commit", "dead.add:committed"),
    *("idempotency.add:after", "idempotency.add:commit", "idempotency.add:committed"),
    *("delay.move:after", "delay.move:commit", "delay.move:committed"),
    *("parked.add:after", "parked.add:committed"),
)


def chosen(random: Random) -> tuple[str, str]:
    """A point, and the how-manieth time that it is reached."""
    return random.choice(POINTS), str(random.randrange(1, 9))
