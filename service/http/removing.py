"""DELETE of a topic and of a group."""

from starlette.responses import Response

from . import answers
from .call import Call, answer
from .problems import bad_parameter


async def remove_topic(call: Call) -> Response:
    """A topic is no more; refused while messages of it wait or are unsettled, unless by force."""
    name = call.topic_name
    force = call.query("force").get("force", "false")
    if force not in ("true", "false"):
        raise bad_parameter("force", "true or false")
    topic = await call.node.directory.topic(name, create=False)
    await call.node.remover.remove_topic(topic, force=force == "true")
    return answer(answers.RemovedTopic(topic=name))


async def remove_group(call: Call) -> Response:
    """A group is no more."""
    topic_name, name = call.topic_name, call.group_name
    call.query()
    topic = await call.node.directory.topic(topic_name, create=False)
    group = await call.node.directory.group(topic, name, create=False)
    await call.node.remover.remove_group(group)
    return answer(answers.RemovedGroup(topic=topic_name, group=name))
