"""HEART_BEAT, UNREGISTER_CLIENT, CHECK_CLIENT_CONFIG, LITE_SUBSCRIPTION_CTL, members of a group, queue locks.

Owns        the header, body and answer of each of these requests.
Must not know   when they are sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rocketlake.client.calls.answer import DEFAULT_TIMEOUT_MS, ask, refusal
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import Subscription
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.client import GroupMembers
from rocketlake.protocol.bodies.heartbeat import (
    ClientConfigCheck,
    ConsumerEntry,
    Heartbeat,
    ProducerEntry,
    SubscriptionEntry,
)
from rocketlake.protocol.bodies.lite import LiteSubscription, LiteSubscriptionBody
from rocketlake.protocol.bodies.lock import LockBody, LockReply
from rocketlake.protocol.bodies.queue_map import QueueEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.client import GroupMembersHeader, UnregisterClientHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

_LITE_HINTS: dict[int, str] = {
    ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED: "unsubscribe from some, or raise the attribute"
    " lite.sub.client.quota of the group, and maxLiteSubscriptionCount of the broker",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "make the group, and give it the attribute +lite.bind.topic=<its topic>",
    ResponseCode.INVALID_PARAMETER: "give the group the attribute +lite.bind.topic=<the topic that is subscribed to>",
}
"""For brokers that name no cure."""


def heartbeat_body(client_id: str, producers: Iterable[str], consumers: Iterable[ConsumerEntry]) -> bytes:
    """The heartbeat of one client, version 1: the list of all its groups, never a difference."""
    entries = [ProducerEntry(group_name=group) for group in producers]
    return Heartbeat(client_id=client_id, producers=entries, consumers=list(consumers)).encode()


async def heartbeat(net: NetClient, address: str, body: bytes, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
    """Register the client's groups; returns the broker's version number."""
    answer = await ask(net, address, Command.request(RequestCode.HEART_BEAT, body=body), timeout_ms)
    return answer.version


async def unregister(
    net: NetClient,
    address: str,
    client_id: str,
    *,
    producer_group: str | None = None,
    consumer_group: str | None = None,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> None:
    """Leave a group now, rather than when the broker misses the heartbeats."""
    header = UnregisterClientHeader(client_id=client_id, producer_group=producer_group, consumer_group=consumer_group)
    await ask(net, address, Command.request(RequestCode.UNREGISTER_CLIENT, header), timeout_ms)


async def check_config(
    net: NetClient,
    address: str,
    client_id: str,
    group: str,
    subscription: Subscription,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> None:
    """Raises RemoteError if the broker would not serve this subscription."""
    entry = SubscriptionEntry.from_model(subscription)
    body = ClientConfigCheck(client_id=client_id, group=group, subscription=entry).encode()
    await ask(net, address, Command.request(RequestCode.CHECK_CLIENT_CONFIG, body=body), timeout_ms)


async def change_lites(
    net: NetClient, address: str, change: LiteSubscription, timeout_ms: int = DEFAULT_TIMEOUT_MS
) -> None:
    """Change which lite topics a client subscribes to. RemoteError: the broker refuses it."""
    body = LiteSubscriptionBody(subscription_set=[change]).encode()
    command = Command.request(RequestCode.LITE_SUBSCRIPTION_CTL, body=body)
    answer = await net.invoke(address, command, timeout_ms)
    if answer.code != ResponseCode.SUCCESS:
        raise refusal(answer, command.code, address, _LITE_HINTS)


async def members(net: NetClient, address: str, group: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> list[str]:
    """Client ids of the group's consumers; [] when the broker knows no consumer of the group."""
    command = Command.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GroupMembersHeader(consumer_group=group))
    # A broker that knows no consumer of the group answers SYSTEM_ERROR.
    answer = await ask(net, address, command, timeout_ms, accept=(ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR))
    if answer.code != ResponseCode.SUCCESS or not answer.body:
        return []
    return GroupMembers.decode(answer.body_bytes).client_ids


async def lock(
    net: NetClient,
    address: str,
    client_id: str,
    group: str,
    queues: Collection[MessageQueue],
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> set[MessageQueue]:
    """Lock these queues for ordered consumption, or renew their locks; returns those that this client has now."""
    command = Command.request(RequestCode.LOCK_BATCH_MQ, body=_lock_body(client_id, group, queues))
    answer = await ask(net, address, command, timeout_ms)
    return {entry.to_model() for entry in LockReply.decode(answer.body_bytes).queues}


async def unlock(
    net: NetClient,
    address: str,
    client_id: str,
    group: str,
    queues: Collection[MessageQueue],
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> None:
    """Give these locks up."""
    command = Command.request(RequestCode.UNLOCK_BATCH_MQ, body=_lock_body(client_id, group, queues))
    await ask(net, address, command, timeout_ms)


def _lock_body(client_id: str, group: str, queues: Collection[MessageQueue]) -> bytes:
    entries = [QueueEntry.from_model(queue) for queue in queues]
    return LockBody(client_id=client_id, consumer_group=group, queues=entries).encode()
