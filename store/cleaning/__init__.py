"""What goes: past its time, or removed with its topic or group."""
