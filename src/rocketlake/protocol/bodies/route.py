"""Bodies of routes and of the cluster picture.

Owns        their shape, both JSON flavours.
Must not know   the route table.

Old peers get `"brokerAddrs":{0:"ip:port"}` (numeric keys unquoted), peers from 4.9.4 on the standard form.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import field

from rocketlake.base.java import json_text
from rocketlake.model.route import BrokerInfo, QueueInfo, Route
from rocketlake.protocol.bodies.body import ANSWER_DIALECT_BYTES_MAX, Body, Entry, to_bare_text, to_json


class BrokerEntry(Entry, kw_only=True):
    """One broker group: its addresses by broker id (0 = master)."""

    cluster: str = ""
    broker_name: str
    broker_addrs: dict[int, str] = field(default_factory=dict)
    enable_acting_master: bool = False
    zone_name: str | None = None

    def to_model(self) -> BrokerInfo:
        """The model value."""
        return BrokerInfo(
            cluster=self.cluster,
            name=self.broker_name,
            addresses=dict(self.broker_addrs),
            zone=self.zone_name,
            enable_acting_master=self.enable_acting_master,
        )

    @classmethod
    def from_model(cls, broker: BrokerInfo) -> BrokerEntry:
        """From the model value."""
        return cls(
            cluster=broker.cluster,
            broker_name=broker.name,
            broker_addrs=dict(sorted(broker.addresses.items())),
            zone_name=broker.zone,
            enable_acting_master=broker.enable_acting_master,
        )


class RouteQueueEntry(Entry, kw_only=True):
    """The queues of a topic on one broker group (Java: QueueData)."""

    broker_name: str
    perm: int = 6
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    topic_sys_flag: int = 0

    def to_model(self) -> QueueInfo:
        """The model value."""
        return QueueInfo(
            broker_name=self.broker_name,
            read_queues=self.read_queue_nums,
            write_queues=self.write_queue_nums,
            perm=self.perm,
            sys_flag=self.topic_sys_flag,
        )

    @classmethod
    def from_model(cls, queue: QueueInfo) -> RouteQueueEntry:
        """From the model value."""
        return cls(
            broker_name=queue.broker_name,
            perm=queue.perm,
            read_queue_nums=queue.read_queues,
            write_queue_nums=queue.write_queues,
            topic_sys_flag=queue.sys_flag,
        )


class RouteBody(Body, kw_only=True):
    """Answer of GET_ROUTEINFO_BY_TOPIC, body of REGISTER_TOPIC_IN_NAMESRV; mappings (static topics) pass unread."""

    bare_keys_bytes_max: ClassVar[int] = ANSWER_DIALECT_BYTES_MAX
    broker_datas: list[BrokerEntry] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    queue_datas: list[RouteQueueEntry] = field(default_factory=list)
    topic_queue_mapping_by_broker: dict[str, Any] | None = None

    def encode(self, standard: bool = True) -> bytes:
        """JSON text; `standard` False leaves numeric keys unquoted, as old clients expect."""
        return json_text.to_text(to_json(self)) if standard else to_bare_text(self)

    def to_model(self) -> Route:
        """The model value."""
        return Route(
            queues=[queue.to_model() for queue in self.queue_datas],
            brokers=[broker.to_model() for broker in self.broker_datas],
            order_config=self.order_topic_conf,
            filter_servers=dict(self.filter_server_table),
            queue_mappings=self.topic_queue_mapping_by_broker,
        )

    @classmethod
    def from_model(cls, route: Route) -> RouteBody:
        """From the model value."""
        return cls(
            queue_datas=[RouteQueueEntry.from_model(queue) for queue in route.queues],
            broker_datas=[BrokerEntry.from_model(broker) for broker in route.brokers],
            order_topic_conf=route.order_config or None,
            filter_server_table=dict(route.filter_servers),
            topic_queue_mapping_by_broker=dict(route.queue_mappings) if route.queue_mappings else None,
        )


class ClusterInfo(Body, kw_only=True):
    """Answer of GET_BROKER_CLUSTER_INFO, always in the old flavour."""

    bare_keys_bytes_max: ClassVar[int] = ANSWER_DIALECT_BYTES_MAX
    brokers: dict[str, BrokerEntry] = field(default_factory=dict, name="brokerAddrTable")
    clusters: dict[str, list[str]] = field(default_factory=dict, name="clusterAddrTable")

    def encode(self) -> bytes:
        """JSON text with unquoted numeric keys."""
        return to_bare_text(self)


class MemberGroupEntry(Entry, kw_only=True):
    """The addresses of one broker group."""

    broker_addrs: dict[int, str] = field(default_factory=dict)
    broker_name: str = ""
    cluster: str = ""


class BrokerMemberGroup(Body, kw_only=True):
    """Answer of GET_BROKER_MEMBER_GROUP."""

    group: MemberGroupEntry = field(name="brokerMemberGroup")

    def encode(self) -> bytes:
        """JSON text with unquoted numeric keys."""
        return to_bare_text(self)
