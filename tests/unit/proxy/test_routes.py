from __future__ import annotations

from typing import Any

import pytest

from rocketlake.model.route import BrokerInfo, QueueInfo, Route
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.convert.routes import assignments_of, endpoints_of, queues_of, types_of
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import AddressScheme, Code, MessageType, Permission

TOPIC = v2.Resource(name="T")
HERE = v2.Endpoints(scheme=AddressScheme.IPv4, addresses=[v2.Address(host="10.0.0.1", port=8081)])


def route(*queues: QueueInfo) -> Route:
    brokers = [
        BrokerInfo("c", "a", {1: "10.0.0.9:2", 0: "10.0.0.8:1"}),
        BrokerInfo("c", "b", {0: "10.0.0.7:1"}),
        BrokerInfo("c", "slave only", {2: "10.0.0.6:1"}),
    ]
    return Route(list(queues), brokers)


def seen(queues: list[Any]) -> list[tuple[str, int, int, int]]:
    return [(each.broker.name, each.broker.id, each.id, each.permission) for each in queues]


def test_each_queue_on_each_replica() -> None:
    found = queues_of(TOPIC, route(QueueInfo("a", 2, 2), QueueInfo("b", 1, 1), QueueInfo("gone", 1, 1)), [1, 2], HERE)
    both = Permission.READ_WRITE
    assert seen(found) == [
        ("a", 0, 0, both), ("a", 0, 1, both), ("a", 1, 0, both), ("a", 1, 1, both), ("b", 0, 0, both),
    ]  # fmt: skip
    assert all(each.topic == TOPIC and each.broker.endpoints == HERE for each in found)
    assert list(found[0].accept_message_types) == [MessageType.NORMAL, MessageType.FIFO]


@pytest.mark.parametrize(
    ("queues", "permissions"),
    [
        (QueueInfo("b", 3, 1), [Permission.READ, Permission.READ, Permission.READ_WRITE]),
        (QueueInfo("b", 1, 2), [Permission.WRITE, Permission.READ_WRITE]),
        (QueueInfo("b", 2, 3, perm=4), [Permission.READ, Permission.READ]),
        (QueueInfo("b", 2, 3, perm=2), [Permission.WRITE] * 3),
        (QueueInfo("b", 2, 3, perm=0), [Permission.NONE] * 3),
        (QueueInfo("b", 0, 0, perm=0), [Permission.NONE]),
    ],
)
def test_permissions(queues: QueueInfo, permissions: list[Permission]) -> None:
    found = queues_of(TOPIC, route(queues), [], HERE)
    assert [each.permission for each in found] == permissions
    assert [each.id for each in found] == list(range(len(permissions)))


def test_a_consumer_is_assigned_brokers() -> None:
    known = route(QueueInfo("a", 2, 2), QueueInfo("b", 2, 2, perm=2), QueueInfo("slave only", 1, 1, perm=4))
    found = [each.message_queue for each in assignments_of(TOPIC, known, HERE, in_order=False)]
    assert seen(found) == [("a", 0, -1, Permission.READ_WRITE), ("slave only", 2, -1, Permission.READ)]


def test_a_consumer_in_order_is_assigned_queues() -> None:
    found = [each.message_queue for each in assignments_of(TOPIC, route(QueueInfo("b", 3, 1)), HERE, in_order=True)]
    assert seen(found) == [("b", 0, number, Permission.READ_WRITE) for number in range(3)]


def test_nothing_to_assign() -> None:
    with pytest.raises(Refused) as refused:
        assignments_of(TOPIC, route(QueueInfo("a", 2, 2, perm=2)), HERE, in_order=False)
    assert refused.value.code is Code.FORBIDDEN


def test_types() -> None:
    assert types_of("DELAY") == [MessageType.DELAY]
    assert types_of("MIXED") == [MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION]
    assert types_of("") == types_of("UNSPECIFIED") == [MessageType.MESSAGE_TYPE_UNSPECIFIED]


def test_endpoints() -> None:
    assert endpoints_of(HERE) == HERE
    none, zero = v2.Endpoints(), v2.Endpoints(addresses=[v2.Address(host="h")])
    for given in (none, zero):
        with pytest.raises(Refused) as refused:
            endpoints_of(given)
        assert refused.value.code is Code.ILLEGAL_ACCESS_POINT
