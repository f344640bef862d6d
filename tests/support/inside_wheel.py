"""What a timing wheel keeps inside, for its tests: cancels that wait for a deal or a sweep, and what it dealt ahead."""

from tarry.wheel.timing_wheel import TimingWheel


def tombstones(wheel: TimingWheel) -> int:
    """Cancels that wait for a deal or a sweep."""
    both = [slots for slots in (wheel._slots, wheel._ahead) if slots is not None]
    buried = [slot for slots in both for slot in slots._slots if slot is not None]
    return sum(len(entries.tombstones) for entries in [*wheel._far.values(), *buried])


def dealt_ahead(wheel: TimingWheel) -> int:
    """Entries dealt to the slots of the next cycle, ahead of time."""
    return 0 if wheel._ahead is None else len(wheel._ahead)
