"""Views of a route: where to publish, what to read, which address."""

from __future__ import annotations

from rocketlake.client.routes import RouteCache, publish_view, subscribe_view
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.route import BrokerInfo, QueueInfo, Route


def route(*brokers: BrokerInfo, perm: int = 6, order_config: str | None = None) -> Route:
    queues = [QueueInfo(broker.name, read_queues=3, write_queues=2, perm=perm) for broker in brokers]
    return Route(queues=queues, brokers=list(brokers), order_config=order_config)


A = BrokerInfo("c", "a", {0: "a0:1", 1: "a1:1"})
B = BrokerInfo("c", "b", {0: "b0:1"})
NO_MASTER = BrokerInfo("c", "n", {1: "n1:1", 2: "n2:1"})


def test_publish_takes_write_queues_of_brokers_with_a_master() -> None:
    view = publish_view("T", route(B, A, NO_MASTER))
    assert [str(queue) for queue in view] == ["T@a:0", "T@a:1", "T@b:0", "T@b:1"]


def test_publish_skips_brokers_without_write_permission() -> None:
    assert publish_view("T", route(A, perm=4)) == ()


def test_an_order_configuration_fixes_the_publish_list() -> None:
    view = publish_view("T", route(A, order_config="b:2;a:1"))
    assert [str(queue) for queue in view] == ["T@b:0", "T@b:1", "T@a:0"]


def test_subscribe_takes_read_queues_and_needs_no_master() -> None:
    queues = subscribe_view("T", route(NO_MASTER, A))
    assert list(queues) == sorted(queues)
    assert len(queues) == 6
    assert subscribe_view("T", route(A, perm=2)) == ()


def test_put_tells_whether_something_changed() -> None:
    cache = RouteCache()
    assert cache.put("T", route(A))
    assert not cache.put("T", route(A))
    assert cache.put("T", route(A, B))


def test_another_order_of_brokers_is_no_change() -> None:
    cache = RouteCache()
    cache.put("T", route(A, B))
    assert not cache.put("T", route(B, A))


def test_a_missing_replica_is_replaced_by_the_next_then_by_any() -> None:
    cache = RouteCache()
    cache.put("T", route(A, NO_MASTER))
    assert cache.to_read_from("a", 1) == "a1:1"
    assert cache.to_read_from("a", 5) == "a0:1"
    assert cache.to_read_from("n", 0) == "n1:1"
    assert cache.to_read_from("gone") is None
    assert cache.master("n") is None


def test_template_queues_are_limited_and_do_not_hide_that_the_topic_is_unknown() -> None:
    cache = RouteCache()
    cache.put_template("New", route(A), queues_max=1)
    view = cache.to_publish("New")
    assert view == (MessageQueue("New", "a", 0),)
    assert cache.to_read("New") is None
    assert cache.master("a") == "a0:1"


def test_addresses_that_no_route_names_are_dropped() -> None:
    cache = RouteCache()
    cache.put("T", route(A, B))
    cache.put("T", route(BrokerInfo("c", "a", {0: "a0:2"})))
    cache.drop_unrouted_brokers()
    assert cache.addresses(masters_only=False) == [("a", 0, "a0:2")]


def test_masters_only_leaves_replicas_out() -> None:
    cache = RouteCache()
    cache.put("T", route(A, NO_MASTER))
    assert cache.addresses(masters_only=True) == [("a", 0, "a0:1")]
    assert cache.broker_of_topic("T") in ("a0:1", "n1:1")
    assert cache.broker_of_topic("U") is None


def test_addresses_of_a_template_whose_queues_are_sent_to_are_kept() -> None:
    cache = RouteCache()
    cache.put_template("New", route(A, B), queues_max=1)
    cache.drop_unrouted_brokers()
    assert cache.master("b") == "b0:1"
    cache.put("New", route(A))
    cache.drop_unrouted_brokers()
    assert cache.master("b") is None
