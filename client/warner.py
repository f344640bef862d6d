"""Warns once for each loop that messages leave it unsettled, at the line of the loop."""

import warnings


class Warner:
    """For one loop over a topic."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._warned = False

    def look(self, left: int) -> None:
        """Warns if the loop has `left` any. To be called from what the loop calls: the warning names its line."""
        if left and not self._warned:
            self._warned = True
            warnings.warn(
                f"a message of {self._topic} left the loop unsettled, which counts as a failed attempt: handle it in "
                "`with message:`, or call its ack, fail or retry",
                RuntimeWarning,
                stacklevel=3,
            )
