"""Spoilt rows: entries that are due and cannot be promoted, each with its reason. `spoilt` finds them."""

from collections.abc import Sequence

from attrs import define, field

from ....store.timers import spoilt

NAMED = 10
"""Rows that are named, at most."""


@define
class SpoiltRow:
    why: str = ""
    rest: int = 0
    """Milliseconds from the last try to the next."""
    again_at: int = 0


@define(eq=False)
class SpoiltRows:
    rows: dict[int, SpoiltRow] = field(factory=dict[int, SpoiltRow], init=False)
    tried: dict[int, SpoiltRow] = field(factory=dict[int, SpoiltRow], init=False)
    """Entries that are being tried once more."""
    found: set[int] = field(factory=set[int], init=False)
    """Entries found spoilt while a batch is parted: others of their order must not take them along."""

    def __contains__(self, entry: object) -> bool:
        return entry in self.rows or entry in self.tried or entry in self.found

    def __len__(self) -> int:
        return len(self.rows) + len(self.tried)

    def without(self, entries: Sequence[int]) -> Sequence[int]:
        """These entries, without those that are set aside."""
        return [entry for entry in entries if entry not in self.rows] if self.rows else entries

    def named(self, most: int = NAMED) -> list[str]:
        """Some of them, each with its reason, and how many more there are."""
        rows = self.rows | self.tried
        told = [f"{spoilt.name_of(entry)}: {row.why}" for entry, row in list(rows.items())[:most]]
        return and_more(told, len(rows))

    def wrong(self, elsewhere: Sequence[str]) -> str | None:
        """A sentence about these rows and those that other nodes tell of; None where all goes that is due."""
        told = dict.fromkeys([*self.named(), *elsewhere])  # several nodes may have met the same row
        return f"due, and cannot be promoted: {'; '.join(told)}" if told else None


def and_more(told: list[str], many: int) -> list[str]:
    """The list; if there are more, with a last item that says how many."""
    return told if many <= len(told) else [*told, f"and {many - len(told)} more"]
