"""Pure: the timing wheel, the retry ladder and the horizon. Integers only: no clock, no trio, no I/O."""
