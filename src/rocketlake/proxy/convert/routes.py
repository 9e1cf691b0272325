"""Routes as gRPC clients see them.

Owns        the queues, assignments and message types of a topic.
Must not know   how a route is found, cached.

Source: Java RouteActivity. Clients never see a broker's address: each broker is reached at the endpoints of the proxy.
Queues are numbered anew, read-only ones first, then write-only ones, then the others: sends and receives name a broker,
no queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rocketlake.model.route import MASTER_ID, BrokerInfo, QueueInfo, Route
from rocketlake.model.topic import Perm
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import Code, MessageType, Permission

__all__ = ["assignments_of", "endpoints_of", "queues_of", "types_of"]

_ANY_QUEUE = -1
_TYPES = {
    "NORMAL": [MessageType.NORMAL],
    "FIFO": [MessageType.FIFO],
    "DELAY": [MessageType.DELAY],
    "TRANSACTION": [MessageType.TRANSACTION],
    "LITE": [MessageType.LITE],
    "PRIORITY": [MessageType.PRIORITY],
    "MIXED": [MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION],
}


def types_of(text: str) -> list[MessageType]:
    """What a topic with this attribute `message.type` takes; MESSAGE_TYPE_UNSPECIFIED: it does not say."""
    return list(_TYPES.get(text, [MessageType.MESSAGE_TYPE_UNSPECIFIED]))


def endpoints_of(given: Any) -> Any:
    """The `v2.Endpoints` under which the client reaches this proxy: its own words.

    Refused: ILLEGAL_ACCESS_POINT if the client names no address.
    """
    if not given.addresses or not all(each.host and 0 < each.port < 65536 for each in given.addresses):
        raise Refused(Code.ILLEGAL_ACCESS_POINT, "the request names no address, or one without host or port")
    addresses = [v2.Address(host=each.host, port=each.port) for each in given.addresses]
    return v2.Endpoints(scheme=given.scheme, addresses=addresses)


def queues_of(topic: Any, route: Route, types: Sequence[int], endpoints: Any) -> list[Any]:
    """Each queue of a topic on each replica, as `v2.MessageQueue`; `topic` is the `v2.Resource` of the request."""
    found = []
    for queues in route.queues:
        permissions = list(_permissions(queues))
        for broker_id in sorted(_replicas(route, queues)):
            broker = v2.Broker(name=queues.broker_name, id=broker_id, endpoints=endpoints)
            found += [
                v2.MessageQueue(topic=topic, id=number, permission=each, broker=broker, accept_message_types=types)
                for number, each in enumerate(permissions)
            ]
    return found


def assignments_of(topic: Any, route: Route, endpoints: Any, *, in_order: bool) -> list[Any]:
    """What a consumer receives from, as `v2.Assignment`: each broker; `in_order`: each queue.

    Refused: FORBIDDEN if there is no queue to read.
    """
    found = []
    for queues in route.queues:
        replicas = _replicas(route, queues)
        if not Perm.is_readable(queues.perm) or queues.read_queues <= 0 or not replicas:
            continue
        broker_id = MASTER_ID if MASTER_ID in replicas else min(replicas)
        broker = v2.Broker(name=queues.broker_name, id=broker_id, endpoints=endpoints)
        for number in range(queues.read_queues) if in_order else (_ANY_QUEUE,):
            queue = v2.MessageQueue(topic=topic, id=number, permission=_permission(queues.perm), broker=broker)
            found.append(v2.Assignment(message_queue=queue))
    if not found:
        raise Refused(Code.FORBIDDEN, "no queue of the topic can be read", hint="give the topic read permission")
    return found


def _replicas(route: Route, queues: QueueInfo) -> dict[int, str]:
    broker: BrokerInfo | None = route.broker(queues.broker_name)
    return {} if broker is None else broker.addresses


def _permissions(queues: QueueInfo) -> Iterator[Permission]:
    reads = queues.read_queues if Perm.is_readable(queues.perm) else 0
    writes = queues.write_queues if Perm.is_writeable(queues.perm) else 0
    both = min(reads, writes)
    yield from [Permission.READ] * (reads - both)
    yield from [Permission.WRITE] * (writes - both)
    yield from [Permission.READ_WRITE] * both
    if _permission(queues.perm) is Permission.NONE:
        yield from [Permission.NONE] * max(1, queues.read_queues, queues.write_queues)


def _permission(perm: int) -> Permission:
    if Perm.is_readable(perm):
        return Permission.READ_WRITE if Perm.is_writeable(perm) else Permission.READ
    return Permission.WRITE if Perm.is_writeable(perm) else Permission.NONE
