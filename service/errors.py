"""The errors with which the service refuses a request: one base class, no deeper hierarchy. HTTP turns each into a
problem (see `http.problems`)."""


class ServiceError(Exception):
    """The service could not do what the caller asked; nothing was done."""


class UnknownTopic(ServiceError):
    """There is no such topic, and topics are not created at first use."""


class UnknownGroup(ServiceError):
    """There is no such group, and groups are not created at first use."""


class UnknownPush(ServiceError):
    """The group's messages are not pushed."""


class UnknownClaim(ServiceError):
    """The service knows no such claim."""


class NotBuilt(ServiceError):
    """The API names this feature, but this version does not have it yet."""


class TopicConflict(ServiceError):
    """The topic exists and cannot be changed in this way; `field` names the field that cannot change, if it is one."""

    def __init__(self, text: str, field: str | None = None) -> None:
        super().__init__(text)
        self.field = field


class TooMany(ServiceError):
    """A limit of the topic is reached; try again after `seconds`."""

    def __init__(self, detail: str, seconds: int) -> None:
        super().__init__(f"{detail}; try again in {seconds} s")
        self.seconds = seconds


class NothingToSettle(ServiceError):
    """Messages of a broadcast topic are neither acked nor failed."""


class Busy(ServiceError):
    """Another transaction has locked the message; ask again in a moment."""


class Overloaded(ServiceError):
    """Too much is waiting to be written; ask again in a moment."""


class Stopping(ServiceError):
    """The server is shutting down; ask another, or this one when it is back."""
