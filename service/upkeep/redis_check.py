"""Checks the setting `redis`: whether its library is installed and its URL is valid; pings Redis only if asked to.

The start of a server does not wait for Redis, and succeeds without it.
"""

from ...store.extras import command
from ..settings import SettingError, Settings


def check_redis(settings: Settings) -> None:
    """Checks library and URL, without connecting. Raises `SettingError`."""
    if not settings.redis:
        return
    where = f"redis ({settings.origin('redis')})"
    try:
        import redis  # its library is needed only where Redis is used
    except ImportError:
        raise SettingError(f"{where}: its library is missing: {command('redis')}, or leave the setting out") from None
    try:
        redis.Redis.from_url(settings.redis)  # pyright: ignore[reportUnknownMemberType]
    except ValueError:
        # The cause quotes the text that it took for a port, which may be a piece of a password.
        raise SettingError(
            f"{where}: write redis://[:password@]host:port/number; what holds one of :/@?#[]% is percent-encoded"
        ) from None


def ping_redis(settings: Settings) -> str | None:
    """Pings it once, for two seconds at most; returns what went wrong, or None. Raises `SettingError`."""
    check_redis(settings)
    import redis

    client = redis.Redis.from_url(settings.redis, socket_timeout=2, socket_connect_timeout=2)  # pyright: ignore[reportUnknownMemberType]
    try:
        client.ping()  # pyright: ignore[reportUnknownMemberType]
    except (redis.RedisError, OSError) as error:
        return str(error)
    finally:
        client.close()
    return None
