"""Cleaning notes: which groups were asked for, and how far the cleaner has come with their logs."""

from attrs import define, field

from ....store.records import Group


@define(eq=False)
class CleaningNotes:
    asked_for: set[int] = field(factory=set[int], init=False)
    """Groups that were asked for; the cleaner writes them down in its next round."""
    starts: dict[tuple[object, ...], int] = field(factory=dict[tuple[object, ...], int], init=False)
    """By place: from where on there is something to clean."""

    def see(self, group_id: int) -> None:
        self.asked_for.add(group_id)

    def forget(self, group: Group) -> None:
        for queue_id in group.queue_ids:
            for what in ("deliveries", "seeks"):
                self.starts.pop((what, group.id, queue_id), None)
