"""`Calling`, the base of `api` and its parts `timers`, `schedules` and `operations`: it sends their calls."""

from collections.abc import Mapping
from typing import Any, TypeVar

from .bodies import Dumps, encode
from .calls import Call, document_of
from .errors import OnFailure, TarryError
from .identity import Identity
from .transport import Transport

T = TypeVar("T")


class Calling:
    """Sends calls to one server."""

    def __init__(
        self, transport: Transport[Any], identity: Identity, on_failure: OnFailure | None, json: Dumps | None
    ) -> None:
        self._transport = transport
        self._identity = identity
        self._on_failure = on_failure
        self._json = json

    async def _publish(self, topic: str, call: Call[T], body: Any) -> T:
        try:
            return await self._transport.send(call)
        except TarryError as error:
            if self._on_failure is not None:
                self._on_failure(topic, body, error)
            raise

    async def _call(
        self,
        method: str,
        path: str,
        request: Mapping[str, Any] | None = None,
        params: Mapping[str, str | int] | None = None,
    ) -> dict[str, Any]:
        content = None if request is None else encode(request)
        return await self._transport.send(Call(method, path, document_of, content, params=params))
