"""The default name of a consumer in an event loop: `identity`, with a task's number in place of a thread's."""

from anyio import get_current_task

from .identity import Identity


class AsyncIdentity(Identity):
    """`ip-pid-uuid-task`. No name is looked up, because that would hold up the event loop."""

    def __init__(self, url: str) -> None:
        super().__init__(url, resolve=False)

    def _number(self) -> int:
        return get_current_task().id
