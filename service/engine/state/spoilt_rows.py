"""Spoilt rows: what is due and cannot be promoted is set aside here, each with its reason. `spoilt` finds them."""

from collections.abc import Sequence

from attrs import define, field

from ....store.timers import spoilt

NAMED = 10
"""Of many so many are named."""


@define
class SpoiltRow:
    """An entry that is set aside."""

    why: str = ""
    rest: int = 0
    """Milliseconds."""
    again_at: int = 0


@define(eq=False)
class SpoiltRows:
    """Entries of the wheel."""

    rows: dict[int, SpoiltRow] = field(factory=dict[int, SpoiltRow], init=False)
    tried: dict[int, SpoiltRow] = field(factory=dict[int, SpoiltRow], init=False)
    """They are on their way once more."""
    found: set[int] = field(factory=set[int], init=False)
    """Found out while a batch is parted: what is of their order must not take them along."""

    def __contains__(self, entry: object) -> bool:
        return entry in self.rows or entry in self.tried or entry in self.found

    def __len__(self) -> int:
        return len(self.rows) + len(self.tried)

    def without(self, entries: Sequence[int]) -> Sequence[int]:
        """Those of these that are not set aside."""
        return [entry for entry in entries if entry not in self.rows] if self.rows else entries

    def named(self, most: int = NAMED) -> list[str]:
        """Some of them, each with its reason, and how many more there are."""
        rows = self.rows | self.tried
        told = [f"{spoilt.name_of(entry)}: {row.why}" for entry, row in list(rows.items())[:most]]
        return and_more(told, len(rows))

    def wrong(self, elsewhere: Sequence[str]) -> str | None:
        """As a sentence, with what other nodes tell of theirs; None where all goes that is due."""
        told = dict.fromkeys([*self.named(), *elsewhere])  # several may have met the same
        return f"due, and cannot be promoted: {'; '.join(told)}" if told else None


def and_more(told: list[str], many: int) -> list[str]:
    """So many of so many."""
    return told if many <= len(told) else [*told, f"and {many - len(told)} more"]
