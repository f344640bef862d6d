"""Reads the dead letters of a group, by id."""

from tarry.store.looking.dead_letters import DeadSearch, find
from tarry.store.ports import Transaction
from tarry.store.records import DeadLetter, Group


async def dead_letters_of(tx: Transaction, group: Group, after: int, limit: int) -> list[DeadLetter]:
    """The dead letters after the id `after`."""
    return list((await find(tx, group, DeadSearch(), after, limit)).letters)
