"""Headers of name server requests: routes, registration, KV entries, write permission.

Owns        field names.
Must not know   the route table.
"""

from __future__ import annotations

from msgspec import field

from rocketlake.protocol.fields import Header, Int32, Int64, RequestHeader


class GetRouteHeader(RequestHeader, kw_only=True):
    """GET_ROUTEINFO_BY_TOPIC."""

    topic: str
    accept_standard_json_only: bool | None = None


class RegisterBrokerHeader(RequestHeader, kw_only=True):
    """REGISTER_BROKER; `body_crc32` 0 = not checked, `heartbeat_timeout_millis` absent = 120 s."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = field(default=0, name="bodyCrc32")
    zone_name: str | None = field(default=None, name="__ZONE_NAME")


class RegisterBrokerReplyHeader(Header, kw_only=True):
    """Answer of REGISTER_BROKER; both addresses are for slaves."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBrokerHeader(RequestHeader, kw_only=True):
    """UNREGISTER_BROKER."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionHeader(RequestHeader, kw_only=True):
    """QUERY_DATA_VERSION; the body is the broker's DataVersion."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionReplyHeader(Header, kw_only=True):
    """Answer of QUERY_DATA_VERSION; the body is the name server's DataVersion when it knows one."""

    changed: bool


class BrokerHeartbeatHeader(RequestHeader, kw_only=True):
    """BROKER_HEARTBEAT; the fields from `broker_id` on are for a controller.

    The last eight are ours: the boot of the machine; how long the master's link has been silent for this slave; how
    long this master's oldest message has waited for its replicas; the word of this process; the newest epoch that it
    has heard of; the newest master that it has heard of, with its epoch; true if its store takes no messages now. Times
    in ms. Java leaves them out and ignores them.
    """

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None
    boot_id: str | None = None
    ha_silent_millis: Int64 | None = None
    ack_stalled_millis: Int64 | None = None
    life: str | None = None
    known_epoch: Int32 | None = None
    known_master: Int64 | None = None
    known_master_epoch: Int32 | None = None
    cannot_lead: bool | None = None


class BrokerMemberGroupHeader(RequestHeader, kw_only=True):
    """GET_BROKER_MEMBER_GROUP."""

    cluster_name: str
    broker_name: str


class WritePermHeader(RequestHeader, kw_only=True):
    """WIPE_WRITE_PERM_OF_BROKER and ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipeWritePermReplyHeader(Header, kw_only=True):
    """Answer of WIPE_WRITE_PERM_OF_BROKER."""

    wipe_topic_count: Int32


class AddWritePermReplyHeader(Header, kw_only=True):
    """Answer of ADD_WRITE_PERM_OF_BROKER."""

    add_topic_count: Int32


class TopicsByClusterHeader(RequestHeader, kw_only=True):
    """GET_TOPICS_BY_CLUSTER."""

    cluster: str


class DeleteTopicInNamesrvHeader(RequestHeader, kw_only=True):
    """DELETE_TOPIC_IN_NAMESRV; no cluster = everywhere."""

    topic: str
    cluster_name: str | None = None


class RegisterTopicHeader(RequestHeader, kw_only=True):
    """REGISTER_TOPIC_IN_NAMESRV; the body is a route whose queues are used."""

    topic: str


class PutKvHeader(RequestHeader, kw_only=True):
    """PUT_KV_CONFIG."""

    kv_namespace: str = field(name="namespace")
    key: str
    value: str


class GetKvHeader(RequestHeader, kw_only=True):
    """GET_KV_CONFIG."""

    kv_namespace: str = field(name="namespace")
    key: str


class GetKvReplyHeader(Header, kw_only=True):
    """Answer of GET_KV_CONFIG."""

    value: str | None = None


class DeleteKvHeader(RequestHeader, kw_only=True):
    """DELETE_KV_CONFIG."""

    kv_namespace: str = field(name="namespace")
    key: str


class KvListHeader(RequestHeader, kw_only=True):
    """GET_KVLIST_BY_NAMESPACE."""

    kv_namespace: str = field(name="namespace")
