"""The commands `push set|show|rm`, which manage the endpoint to which a group's messages are posted."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import App, Parameter

from ...store.named_files import text_of
from .flags import whole
from .options import Group, Topic, duration
from .printing import UsageError
from .server import HERE, Server

push = App(name="push", help="Have the messages of a group posted to an endpoint.")

_COLUMNS = ("topic", "group", "state", "since", "because", "url", ">timeout ms", ">in flight", ">secrets")


@push.command(name="set")
def set_(
    topic: Topic,
    url: Annotated[str, Parameter(help="The endpoint: https://...")],
    /,
    *,
    group: Group,
    secrets: Annotated[
        str,
        Parameter(
            name="--secret-file",
            allow_leading_hyphen=True,
            help="A file with the secret, whsec_...; several one a line; - reads them from stdin.",
        ),
    ],
    timeout: Annotated[str | None, Parameter(converter=duration, help="Of one post: 10s unless said.")] = None,
    max_in_flight: Annotated[int | None, whole("Posts at once: 10 unless said.")] = None,
    server: Server = HERE,
) -> int:
    """Set the endpoint, and switch it on.

    The secret is never shown again. It is read from a file, since others may see a command's arguments.
    """
    try:
        text = sys.stdin.read() if secrets == "-" else text_of(secrets)
    except ValueError as error:
        raise UsageError(f"--secret-file: {error}") from error
    if not (given := text.split()):
        raise UsageError("--secret-file: there is no secret in it")
    with server.client() as tarry:
        return _show(server, tarry.put_push(topic, group, url, given, timeout=timeout, max_in_flight=max_in_flight))


@push.command
def show(topic: Topic, /, *, group: Group, server: Server = HERE) -> int:
    """Show the endpoint, and whether posts arrive.

    Exit code 3 when there is none.
    """
    with server.client() as tarry:
        return _show(server, tarry.get_push(topic, group))


@push.command
def rm(topic: Topic, /, *, group: Group, server: Server = HERE) -> int:
    """Stop posting; the messages wait to be claimed.

    Exit code 3 when there is none.
    """
    with server.client() as tarry:
        tarry.delete_push(topic, group)
    row = {"topic": topic, "group": group, "result": "removed"}
    return server.show([row], tuple(row), [tuple(row.values())])


def _show(server: Server, one: Mapping[str, Any]) -> int:
    names = ("topic", "group", "state", "since", "because", "url", "timeout", "max_in_flight", "secrets")
    return server.show([one], _COLUMNS, [[one[name] for name in names]])
