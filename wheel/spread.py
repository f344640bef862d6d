"""The spread: which second of a window has the least to do, and takes the next message.

For times far ahead it is known by the minute what falls due; for messages placed here or in the wheel, by the second.
What is known of a minute and not of its seconds is taken to be spread over them evenly.

A window is searched from above: first the hour that has the least, then its minute, then its second. Of several that
are equal a number chooses, the hash of a message's key: so the same key comes to the same place for as long as nothing
else changes.

Pure: integers in, integers out. Seconds and minutes count from 1970, times are milliseconds.
"""

from collections.abc import Callable, Sequence

_MINUTES, _SECONDS = 60, 60
_HOUR = _MINUTES * _SECONDS
_MS = 1000


class _Hour:
    """One hour: how much there is in each of its seconds, as far as it is known."""

    __slots__ = ("_even", "_least", "_seconds", "_top", "learned_at")

    _seconds: dict[int, list[int]]
    # By minute, where something is known of the seconds.
    _even: list[int]
    # What each second of a minute has besides: the rest of the minute, spread evenly.
    _least: list[int]
    # For each minute, the least that a second of it has.
    _top: int
    # The least of all minutes.
    learned_at: int | None
    # When the counts of its minutes were last read.

    def __init__(self) -> None:
        self._seconds = {}
        self._even = [0] * _MINUTES
        self._least = [0] * _MINUTES
        self._top = 0
        self.learned_at = None

    def add(self, second: int) -> None:
        minute, place = divmod(second, _SECONDS)
        seconds = self._seconds.get(minute)
        if seconds is None:
            seconds = self._seconds[minute] = [0] * _SECONDS
        seconds[place] += 1
        if seconds[place] + self._even[minute] == self._least[minute] + 1:  # it was the least
            self._least[minute] = min(seconds) + self._even[minute]
            self._top = min(self._least)

    def learn(self, counts: Sequence[int], known: Callable[[int], Sequence[int] | None]) -> None:
        if not self._seconds and not any(counts):  # like nearly all hours that are far ahead
            self._even, self._least, self._top = [0] * _MINUTES, [0] * _MINUTES, 0
            return
        for minute, many in enumerate(counts):
            seconds = self._seconds.get(minute)
            if many and (others := known(minute)) is not None:
                seconds = list(others) if seconds is None else list(map(max, seconds, others))
                self._seconds[minute] = seconds
            rest = max(0, many - (0 if seconds is None else sum(seconds)))
            self._even[minute] = even = -(-rest // _SECONDS)
            self._least[minute] = even + (0 if seconds is None else min(seconds))
        self._top = min(self._least)

    def load(self, second: int) -> int:
        minute, place = divmod(second, _SECONDS)
        seconds = self._seconds.get(minute)
        return self._even[minute] + (0 if seconds is None else seconds[place])

    def least(self, begin: int, end: int) -> int:
        """The least that a second in [begin, end) has."""
        return self._top if end - begin == _HOUR else min(self._leasts(begin, end))

    def find(self, begin: int, end: int, number: int) -> int:
        """The second that has the least in [begin, end); `number` chooses among equals."""
        minute = begin // _SECONDS + pick(self._leasts(begin, end), number)
        base = minute * _SECONDS
        low, high = max(begin - base, 0), min(end - base, _SECONDS)
        seconds = self._seconds.get(minute)
        number //= _MINUTES
        return base + low + (number % (high - low) if seconds is None else pick(seconds[low:high], number))

    def _leasts(self, begin: int, end: int) -> Sequence[int]:
        """For each minute, which may be a part at either end, the least that a second has."""
        first, last = begin // _SECONDS, (end - 1) // _SECONDS
        leasts = self._least[first : last + 1]
        for minute in {first, last}:
            base = minute * _SECONDS
            low, high = max(begin - base, 0), min(end - base, _SECONDS)
            if high - low < _SECONDS and (seconds := self._seconds.get(minute)) is not None:
                leasts[minute - first] = min(seconds[low:high]) + self._even[minute]
        return leasts


class Spread:
    """What is known of the hours that were asked for, and where the next message goes."""

    def __init__(self) -> None:
        self._hours: dict[int, _Hour] = {}

    def unknown(self, since: int, until: int, before: int) -> list[int]:
        """The hours of a window that were not learned at `before` or later."""
        wanted = range(since // _MS // _HOUR, (until - 1) // _MS // _HOUR + 1)
        return [hour for hour in wanted if not self._was_learned(hour, before)]

    def _was_learned(self, hour: int, before: int) -> bool:
        known = self._hours.get(hour)
        return known is not None and known.learned_at is not None and known.learned_at >= before

    def learn(self, hour: int, counts: Sequence[int], now: int, known: Callable[[int], Sequence[int] | None]) -> None:
        """Note how many fall due in each minute of an hour. `known` is asked about each minute of it that has some, and
        tells of its seconds, if it can."""
        one = self._hours.setdefault(hour, _Hour())
        one.learned_at = now
        one.learn(counts, known)

    def place(self, since: int, until: int, number: int) -> int:
        """The millisecond in [since, until) for the next message, which is counted there; a large `number` chooses
        among equals."""
        first, end = since // _MS, (until - 1) // _MS + 1
        pieces = [
            (hour, max(first - hour * _HOUR, 0), min(end - hour * _HOUR, _HOUR))
            for hour in range(first // _HOUR, (end - 1) // _HOUR + 1)
        ]
        hours = [self._hours.setdefault(hour, _Hour()) for hour, _, _ in pieces]
        least = [one.least(low, high) for one, (_, low, high) in zip(hours, pieces, strict=True)]
        chosen = pick(least, number)
        hour, low, high = pieces[chosen]
        number //= len(pieces)
        second = hours[chosen].find(low, high, number)
        hours[chosen].add(second)
        at = (hour * _HOUR + second) * _MS
        begin, stop = max(since, at), min(until, at + _MS)
        return begin + number // _HOUR % (stop - begin)

    def load(self, at: int) -> int:
        """How many there are in a second, as far as it is known."""
        hour, second = divmod(at // _MS, _HOUR)
        known = self._hours.get(hour)
        return 0 if known is None else known.load(second)

    def forget(self, now: int) -> None:
        """Drop hours that are over."""
        for hour in [hour for hour in self._hours if hour < now // _MS // _HOUR]:
            del self._hours[hour]


def pick(loads: Sequence[int], number: int) -> int:
    """The index of a least value; `number` chooses among several."""
    least = min(loads)
    try:
        return loads.index(least, number % len(loads))
    except ValueError:
        return loads.index(least)
