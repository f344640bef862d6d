"""What the service answers no to: one base, flat. HTTP turns each into a problem (see `http.problems`)."""


class ServiceError(Exception):
    """The service could not do what was asked; nothing was done."""


class UnknownTopic(ServiceError):
    """There is no such topic, and topics do not come into being at first use."""


class UnknownGroup(ServiceError):
    """There is no such group, and groups do not come into being at first use."""


class UnknownPush(ServiceError):
    """The group's messages are not pushed."""


class UnknownClaim(ServiceError):
    """The service knows no such claim."""


class NotBuilt(ServiceError):
    """The contract names it, and this version cannot do it yet."""


class TopicConflict(ServiceError):
    """The topic exists and cannot be changed in this way; `field` is what of it was to be another, where it is one."""

    def __init__(self, text: str, field: str | None = None) -> None:
        super().__init__(text)
        self.field = field


class TooMany(ServiceError):
    """A limit of the topic is reached; `seconds` is when to try again."""

    def __init__(self, detail: str, seconds: int) -> None:
        super().__init__(f"{detail}; try again in {seconds} s")
        self.seconds = seconds


class NothingToSettle(ServiceError):
    """Messages of a broadcast topic are neither acked nor failed."""


class Busy(ServiceError):
    """Somebody else's transaction holds the message; ask again in a moment."""


class Overloaded(ServiceError):
    """Too much is waiting to be written; ask again in a moment."""


class Stopping(ServiceError):
    """The server is shutting down; ask another, or this one when it is back."""
