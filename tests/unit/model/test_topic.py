from __future__ import annotations

from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.route import BrokerInfo, Route
from rocketlake.model.topic import DataVersion, Perm, TopicConfig, TopicFilterType


def test_defaults_are_those_of_rocketmq():
    topic = TopicConfig("T")
    assert (topic.read_queues, topic.write_queues, topic.perm, topic.sys_flag, topic.order) == (16, 16, 6, 0, False)
    assert topic.filter_type is TopicFilterType.SINGLE_TAG
    assert topic.attributes == {}
    assert topic.cleanup_policy == "DELETE"
    assert topic.is_readable
    assert topic.is_writeable


def test_two_topics_do_not_share_attributes():
    assert TopicConfig("A").attributes is not TopicConfig("B").attributes


def test_permissions():
    assert [Perm.to_text(perm) for perm in range(8)] == ["---", "--X", "-W-", "-WX", "R--", "R-X", "RW-", "RWX"]
    assert not TopicConfig("T", perm=Perm.WRITE).is_readable
    assert not TopicConfig("T", perm=Perm.READ).is_writeable
    assert Perm.is_inherited(7)
    assert Perm.is_valid(7)
    assert not Perm.is_valid(8)
    assert not Perm.is_valid(-1)


def test_a_version_grows_with_every_change():
    first = DataVersion(timestamp=10)
    second = first.next(20)
    assert (second.state_version, second.counter, second.timestamp) == (0, 1, 20)
    assert second.next(15, state_version=3) == DataVersion(3, 2, 15)


def test_versions_compare_by_state_then_counter_then_time():
    ordered = [DataVersion(0, 1, 99), DataVersion(0, 2, 1), DataVersion(0, 2, 2), DataVersion(1, 0, 0)]
    assert sorted(ordered[::-1]) == ordered


def test_a_route_finds_its_brokers():
    broker = BrokerInfo("c", "a", {0: "h:1", 1: "h:2"})
    route = Route(brokers=[broker])
    assert route.broker("a") is broker
    assert route.broker("b") is None
    assert broker.master == "h:1"
    assert BrokerInfo("c", "a", {1: "h:2"}).master is None
    assert hash(MessageQueue("T", "b", 1)) == hash(MessageQueue("T", "b", 1))
