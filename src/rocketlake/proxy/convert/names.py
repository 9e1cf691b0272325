"""Names of topics and groups in requests.

Owns        which names a client may give, a topic's name as a `Resource`.
Must not know   which topics and groups exist.
"""

from __future__ import annotations

from typing import Any

from rocketlake.base.errors import UsageError
from rocketlake.model.names import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    check_group,
    check_topic,
    is_system_group,
    is_system_topic,
)
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import Code

__all__ = ["group_named", "group_of", "resource_of", "topic_named", "topic_of"]


def topic_of(resource: Any) -> str:
    """The topic of a `v2.Resource`. Refused: ILLEGAL_TOPIC. Its namespace is not looked at, as Apache's proxy does."""
    return topic_named(resource.name)


def topic_named(name: str) -> str:
    """The same name, if clients may give it. Refused: ILLEGAL_TOPIC."""
    try:
        check_topic(name)
    except UsageError as error:
        raise Refused(Code.ILLEGAL_TOPIC, error.what, hint=error.hint) from None
    if is_system_topic(name):
        raise Refused(Code.ILLEGAL_TOPIC, f"topic {name} belongs to RocketMQ itself", hint="use a topic of your own")
    return name


def group_of(resource: Any) -> str:
    """The consumer group of a `v2.Resource`. Refused: ILLEGAL_CONSUMER_GROUP."""
    return group_named(resource.name)


def group_named(name: str) -> str:
    """The same name, if clients may give it. Refused: ILLEGAL_CONSUMER_GROUP."""
    try:
        check_group(name)
    except UsageError as error:
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, error.what, hint=error.hint) from None
    if is_system_group(name):
        raise Refused(
            Code.ILLEGAL_CONSUMER_GROUP, f"group {name} belongs to RocketMQ itself", hint="use a group of your own"
        )
    return name


def resource_of(topic: str) -> Any:
    """The `v2.Resource` of a topic: `namespace%name` is taken apart, also behind %RETRY% and %DLQ%."""
    start, rest = "", topic
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if topic.startswith(prefix):
            start, rest = prefix, topic.removeprefix(prefix)
    namespace, separator, name = rest.partition("%")
    if not namespace or not separator or is_system_topic(topic):
        return v2.Resource(name=topic)
    return v2.Resource(resource_namespace=namespace, name=start + name)
