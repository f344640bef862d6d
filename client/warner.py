"""Warns once for each loop that messages leave it unsettled, at the line of the loop."""

import warnings


class Warner:
    """Of one loop over a topic."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._warned = False

    def look(self, left: int) -> None:
        """Called from what the loop calls, with how many it has left."""
        if left and not self._warned:
            self._warned = True
            warnings.warn(
                f"a message of {self._topic} left the loop unsettled, which counts as a failed attempt: handle it in "
                "`with message:`, or call its ack, fail or retry",
                RuntimeWarning,
                stacklevel=3,
            )
