"""Counters in Redis, from which the offsets of some topics are drawn: one round trip and no lock for a whole batch.

Nothing is lost when Redis forgets a counter (a restart, FLUSHALL, an old snapshot) or is away: `redis_offsets` compares
what is drawn with the database, and draws there when it must. All use of the Redis library for offsets is in this file.
"""

import time
from collections.abc import Mapping
from typing import Any

import trio

_TIMEOUT = 0.5
"""Seconds to wait for an answer: after that the database is the sequencer, until Redis is asked again."""
_REST = 1.0
"""Seconds for which Redis is not asked after it gave no answer."""

# A missing counter is not made here, since it would begin at 0 again.
_DRAW = """
local drawn = {}
for i, key in ipairs(KEYS) do
  drawn[i] = redis.call('EXISTS', key) == 1 and redis.call('INCRBY', key, ARGV[i]) or -1
end
return drawn
"""
_RAISE = """
for i, key in ipairs(KEYS) do
  local known = tonumber(redis.call('GET', key) or '-1')
  if known < tonumber(ARGV[i]) then redis.call('SET', key, ARGV[i]) end
end
return 0
"""


class SequencerAway(Exception):
    """Redis did not answer."""


class RedisSequencer:
    """The counters of one database's queues, each the next offset to be drawn. Raises `SequencerAway`."""

    def __init__(self, url: str, database: str) -> None:
        # Imported here: the library is needed only where Redis is used.
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._errors: tuple[type[Exception], ...] = (redis.RedisError, OSError)
        self._client: Any = redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
            url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT, retry=Retry(NoBackoff(), 0)
        )
        self._draw = self._client.register_script(_DRAW)
        self._raise = self._client.register_script(_RAISE)
        self._prefix = f"tarry:{database}:sequence:"
        self._away_until = 0.0

    async def draw(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Raises each counter by its count, and returns where each began. Counters that Redis does not know are left
        out."""
        ends = await self._call(self._draw, counts)
        return {
            queue_id: int(end) - counts[queue_id] for queue_id, end in zip(counts, ends, strict=True) if int(end) >= 0
        }

    async def raise_to(self, floors: Mapping[int, int]) -> None:
        """Raises counters that are lower than these floors, or missing, to them."""
        await self._call(self._raise, floors)

    async def aclose(self) -> None:
        """Closes the connections."""
        await trio.to_thread.run_sync(self._client.close)

    async def _call(self, script: Any, numbers: Mapping[int, int]) -> Any:
        if time.monotonic() < self._away_until:
            raise SequencerAway("Redis gave no answer a moment ago")
        keys = [f"{self._prefix}{queue_id}" for queue_id in numbers]
        try:
            return await trio.to_thread.run_sync(script, keys, list(numbers.values()))
        except self._errors as error:
            self._away_until = time.monotonic() + _REST
            raise SequencerAway(str(error)) from error
