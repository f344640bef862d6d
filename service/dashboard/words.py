"""Numbers and times as people read them (pure)."""

from datetime import UTC, datetime

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def number(value: object) -> str:
    """1234567 is 1,234,567."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def short(value: float) -> str:
    """1234567 is 1.2 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= size:
            scaled = value / (size if unit != " k" else 1000)
            return f"{scaled:.1f}{unit}" if scaled < 100 else f"{scaled:.0f}{unit}"
    return number(value if isinstance(value, int) or value % 1 else int(value))


def duration(ms: float | None) -> str:
    """90000 is 1 min 30 s: its two largest units."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000 and ms % 1000:
        return f"{ms / 1000:.3f} s"
    said: list[str] = []
    left = int(ms)
    for size, unit in _UNITS:
        many, left = divmod(left, size)
        if many:
            said.append(f"{many} {unit}")
    return " ".join(said[:2])


def milliseconds(time: str) -> int:
    """Unix milliseconds of a time as the API tells it."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def moment(time: str | None) -> str:
    """2026-11-23T20:41:07.123Z is 2026-11-23 20:41:07.123."""
    return "" if not time else time.replace("T", " ").removesuffix("Z")


def clock(ms: float) -> str:
    """The time of the day, UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M")


def day(ms: float) -> str:
    """The day of the month, UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%d %b")


def bodied(count: int, one: str, many: str) -> str:
    """1 message, 2 messages."""
    return f"{number(count)} {one if count == 1 else many}"
