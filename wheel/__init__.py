"""Pure: the timing wheel, the retry ladder and the horizon. Integers only: no clock, no trio, no I/O.

- `timing_wheel`  what is due: add, cancel, advance. Its docstring has the algorithm.
- `far_cycle`     an hour that has not begun: two columns, appended to.
- `slots`         the hour that the hand is in, dealt to 3600 seconds; and the next one, ahead of time.
- `opened`        the seconds that have begun, in order, handed out by the millisecond.
- `columns`       entries that are handed out together, each with its due time.
- `entries`       columns and tombstones, which far cycles and slots share.
- `shards`        parts of all entries, which several wheels share.
- `ladder`        how long a message rests after each failure.
- `horizon`       how much of the future the wheel holds, and when to read more of it.
"""
