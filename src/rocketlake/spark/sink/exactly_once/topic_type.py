"""Refuses topics whose type says that they take no transactions.

Owns        the rule.
Must not know   half messages.

Apache's brokers store a half message for a topic of any type; their proxies and clients go by the attribute. A topic of
which the operator has said that it is for other messages stays so.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.bodies.topic import TopicEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import GetTopicConfigHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.spark.sink.exactly_once.calls import Calls

__all__ = ["check_topic_type"]

_TYPE = "message.type"
_TAKES_TRANSACTIONS = ("", "UNSPECIFIED", "TRANSACTION", "MIXED")


async def check_topic_type(calls: Calls, queues: Sequence[MessageQueue]) -> None:
    """UsageError for a topic of another type. Brokers that know no types do not answer the question, and pass."""
    queue = queues[0]
    command = Command.request(RequestCode.GET_TOPIC_CONFIG, GetTopicConfigHeader(topic=queue.topic))

    async def ask(address: str, timeout_ms: int) -> Command:
        return await calls.client.net.invoke(address, command, timeout_ms)

    answer = await calls.read(queue, f"the question for the settings of {queue.topic}", ask)
    if answer.code != ResponseCode.SUCCESS:
        return
    kind = TopicEntry.decode(answer.body_bytes).attributes.get(_TYPE, "")
    if kind.upper() not in _TAKES_TRANSACTIONS:
        raise UsageError(
            f"topic {queue.topic} is for messages of type {kind}, and takes no transactions",
            hint=f"`rocketlake topic alter {queue.topic} --attribute +{_TYPE}=TRANSACTION`, or write it with"
            " 'effectively_once'",
        )
