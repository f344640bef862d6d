"""Cleaning notes: what the cleaner is told of groups, and how far it has come with their logs."""

from attrs import define, field

from ....store.records import Group


@define(eq=False)
class CleaningNotes:
    """Of one server."""

    asked_for: set[int] = field(factory=set[int], init=False)
    """Groups that somebody has asked for; the cleaner writes them down in its next round."""
    starts: dict[tuple[object, ...], int] = field(factory=dict[tuple[object, ...], int], init=False)
    """By place, from where on there is something to clean."""

    def see(self, group_id: int) -> None:
        """Somebody asked for this group."""
        self.asked_for.add(group_id)

    def forget(self, group: Group) -> None:
        """The group is removed."""
        for queue_id in group.queue_ids:
            for what in ("deliveries", "seeks"):
                self.starts.pop((what, group.id, queue_id), None)
