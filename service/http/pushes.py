"""The calls that set, show and remove the endpoint to which the messages of a group are pushed."""

from ..push.endpoint import read_endpoint
from ..push.signing import read_secret
from . import answers, rendering
from .asgi import Response
from .call import Call, answer
from .problems import bad_field
from .requests import PutPush
from .schemas import POST

_TIMEOUT = 10_000
"""The default time-out of a post, in milliseconds."""
_IN_FLIGHT = 10


async def put_push(call: Call) -> Response:
    """Have the messages of a group posted to an endpoint.

    The group is created if it does not exist.
    """
    request = await call.read(PutPush)
    try:
        read_endpoint(request.url, call.node.pushers.allowed)
    except ValueError as error:
        raise bad_field("/url", str(error)) from None
    timeout = _TIMEOUT
    if request.timeout is not None:
        timeout = call.duration(request.timeout, "/timeout", low=POST["minimum"], high=POST["maximum"])
    in_flight = _IN_FLIGHT if request.max_in_flight is None else request.max_in_flight
    secrets = _secrets(request.secret)
    topic = await call.node.directory.topic(call.part("topic"))
    name = call.part("group")
    row, made = await call.node.pushers.put(topic, name, request.url, secrets, timeout, in_flight)
    return answer(rendering.push(await call.group(), row), 201 if made else 200)


def _secrets(given: str | list[str]) -> list[str]:
    """The secrets, checked, without duplicates."""
    secrets = [given] if isinstance(given, str) else given
    for number, secret in enumerate(secrets):
        try:
            read_secret(secret)
        except ValueError as error:
            raise bad_field("/secret" if isinstance(given, str) else f"/secret/{number}", str(error)) from None
    return list(dict.fromkeys(secrets))


async def get_push(call: Call) -> Response:
    """Show where the messages of a group are posted, and whether that works."""
    group = await call.group()
    return answer(rendering.push(group, await call.node.pushers.find(group)))


async def remove_push(call: Call) -> Response:
    """Stop posting the messages of a group; they wait to be claimed."""
    group = await call.group()
    await call.node.pushers.remove(group)
    return answer(answers.RemovedPush(topic=group.topic.name, group=group.name))
